#include "pipeline/network/rescale_norm.h"

#include "algebra/products.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/target.h"
#include "stats/row_squares.h"

#include <math.h>

/* Sums of x z and z z over rows and units: of all chunks, and of the one at hand. */
typedef struct norm_pass {
    calibration_network *network;
    int node;
    cut_axis axis;
    double products, squares;
    double part_products, part_squares;
    int64_t rows, part_rows;
} norm_pass;

/* *sum += sum_rj A[r, j] B[r, j] */
static grail_status add_products(matrix a, matrix b, double *sum)
{
    grail_status status = GRAIL_OK;
    double *of_rows = NULL;
    TRY(memory_new_unset(&of_rows, (size_t)a.rows, sizeof of_rows[0]));
    TRY(row_products(a, b, of_rows));
    for (int64_t r = 0; r < a.rows; r++) {
        *sum += of_rows[r];
    }
out:
    memory_free(of_rows);
    return status;
}

static grail_status add_batch(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    norm_pass *p = user;
    const grail_reducer *r = network->results[p->axis.site].reducer;
    const matrix made = execution_value(e, e->graph->nodes[p->node].output);
    const int64_t dense = r->units * p->axis.features;
    const matrix z = matrix_columns(made, dense, r->kept * p->axis.features);
    matrix x = {0};
    TRY(matrix_pool_take(network->pool, z.rows, z.columns, &x));
    TRY(reduce_value(r, p->axis.features, matrix_columns(made, 0, dense), x));
    TRY(add_products(x, z, &p->part_products));
    TRY(add_row_squares(z, &p->part_squares));
    p->part_rows += z.rows;
out:
    matrix_pool_give(network->pool, &x);
    return status;
}

static chunk_sums sums_of(void *user, bool held_out)
{
    norm_pass *p = user;
    chunk_sums sums = {.part_rows = &p->part_rows, .total_rows = &p->rows};
    (void)held_out;
    chunk_sums_append_number(&sums, &p->part_products, &p->products);
    chunk_sums_append_number(&sums, &p->part_squares, &p->squares);
    return sums;
}

/* Where nothing came through, or nothing finite, the weight stays. */
static float factor_of(const norm_pass *p)
{
    const double factor = p->squares > 0.0 ? p->products / p->squares : 1.0;
    return isfinite(factor) && factor > 0.0 ? (float)factor : 1.0F;
}

static grail_status scale_weight(const norm_pass *p, int parameter)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    int64_t count = 0;
    const grail_reducer *r = p->network->results[p->axis.site].reducer;
    TRY(parameter_store_read_f32(p->network->current.parameters, parameter, &weight, &count));
    for (int64_t i = r->units * p->axis.features; i < count; i++) {
        weight[i] *= factor_of(p);
    }
    TRY(parameter_store_set(p->network->current.parameters, parameter, &count, weight));
out:
    memory_free(weight);
    return status;
}

grail_status rescale_norm(calibration_network *network, int node_index)
{
    const compression_request *request = network->request;
    const int weight = request->graph->nodes[node_index].weight;
    norm_pass p = {.network = network, .node = node_index, .axis = request->cuts[weight].rows};
    const visitor v = {.node = node_index + 1, .add = add_batch, .sums = sums_of, .user = &p};
    const pass made = {.end = v.node, .stays = true, .visitors = &v, .visitor_count = 1};
    CHECK(pass_run(network, &made));
    return error_in(scale_weight(&p, weight), "norm '%s'", request->graph->parameters[weight].name);
}
