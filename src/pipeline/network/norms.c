#include "pipeline/network/norms.h"

#include "backend/operations.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/target.h"

#include <math.h>

/* -- REPAIR ------------------------------------------------------------------------------------ */

/* A channel that does not vary on the samples keeps its variance: division by a tiny variance would
 * amplify the channel on other data. The variance is unbiased, as torch stores it. */
static void new_statistics(const column_sums *s, const double *sum, const double *square,
                           int64_t width, float *mean, float *variance)
{
    static const double nothing = 1e-12; /* of the second moment: rounding of the f64 sums */
    const double count = (double)s->rows;
    for (int64_t k = 0; k < width; k++) {
        const double average = sum[k] / count;
        const double second = square[k] / count;
        const double spread = second - average * average;
        mean[k] = (float)average;
        if (s->rows > 1 && spread > nothing * second) {
            variance[k] = (float)(spread * count / (count - 1.0));
        }
    }
}

static grail_status set_statistics(parameter_store *current, const node *n, const column_sums *s)
{
    grail_status status = GRAIL_OK;
    host_view sum = {0};
    host_view square = {0};
    float *mean = NULL;
    float *variance = NULL;
    int64_t count = 0;
    TRY(host_view_open(s->sums, GRAIL_DTYPE_F64, HOST_READS, &sum));
    TRY(host_view_open(s->squares, GRAIL_DTYPE_F64, HOST_READS, &square));
    TRY(parameter_store_read_f32(current, n->mean, &mean, &count));
    TRY(parameter_store_read_f32(current, n->variance, &variance, &count));
    new_statistics(s, sum.values, square.values, count, mean, variance);
    TRY(parameter_store_set(current, n->mean, &count, mean));
    TRY(parameter_store_set(current, n->variance, &count, variance));
out:
    host_view_drop(&sum);
    host_view_drop(&square);
    memory_free(mean);
    memory_free(variance);
    return status;
}

grail_status repair_batch_norm(sample_passes *passes, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &passes->current->graph->nodes[index];
    const parameter_entry *entry = NULL;
    column_sums s = {0};
    TRY(parameter_store_get(passes->current->parameters, n->mean, &entry));
    TRY(column_sums_init(passes->current->parameters->backend, n->inputs[0], entry->shape[0], true,
                         &s));
    TRY(pass_visit(passes, index, GRAPH_NONE, column_sums_visitor(&s, index)));
    TRY(set_statistics(passes->current->parameters, n, &s));
out:
    column_sums_fini(&s);
    return status;
}

/* -- norms over a width that is cut ------------------------------------------------------------ */

/* Sums of x z and z z over rows and units: of all chunks, and of the one at hand. */
typedef struct norm_pass {
    const grail_reducer *reducer;
    int node;
    cut_axis axis;
    matrix sums, part; /* [1, 2], owned */
    int64_t rows, part_rows;
} norm_pass;

static grail_status add_batch(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    norm_pass *p = user;
    const grail_reducer *r = p->reducer;
    const matrix made = execution_value(e, e->graph->nodes[p->node].output);
    const int64_t dense = r->units * p->axis.features;
    const matrix z = matrix_columns(made, dense, r->kept * p->axis.features);
    matrix x = {0};
    TRY(matrix_pool_take(e->pool, z.rows, z.columns, &x));
    TRY(reduce_value(r, p->axis.features, matrix_columns(made, 0, dense), x));
    TRY(matrix_add_products(x, z, matrix_columns(p->part, 0, 1)));
    TRY(matrix_add_products(z, z, matrix_columns(p->part, 1, 1)));
    p->part_rows += z.rows;
out:
    matrix_pool_give(e->pool, &x);
    return status;
}

static chunk_sums sums_of(void *user, bool held_out)
{
    norm_pass *p = user;
    chunk_sums sums = {.part_rows = &p->part_rows, .total_rows = &p->rows};
    (void)held_out;
    chunk_sums_append_matrix(&sums, &p->part, &p->sums);
    return sums;
}

/* Where nothing came through, or nothing finite, the weight stays. */
static float factor_of(double products, double squares)
{
    const double factor = squares > 0.0 ? products / squares : 1.0;
    return isfinite(factor) && factor > 0.0 ? (float)factor : 1.0F;
}

static grail_status scale_weight(const norm_pass *p, int parameter, parameter_store *current)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    double sums[2];
    int64_t count = 0;
    const grail_reducer *r = p->reducer;
    TRY(matrix_download(p->sums, sums));
    TRY(parameter_store_read_f32(current, parameter, &weight, &count));
    for (int64_t i = r->units * p->axis.features; i < count; i++) {
        weight[i] *= factor_of(sums[0], sums[1]);
    }
    TRY(parameter_store_set(current, parameter, &count, weight));
out:
    memory_free(weight);
    return status;
}

grail_status rescale_norm(const cut_axis *axis, const grail_reducer *reducer, int node_index,
                          sample_passes *passes)
{
    grail_status status = GRAIL_OK;
    const graph *g = passes->current->graph;
    const int weight = g->nodes[node_index].weight;
    backend *b = passes->current->parameters->backend;
    norm_pass p = {.reducer = reducer, .node = node_index, .axis = *axis};
    const visitor v = {.node = node_index + 1, .add = add_batch, .sums = sums_of, .user = &p};
    const pass made = {.end = v.node, .stays = true, .visitors = &v, .visitor_count = 1};
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 2, &p.sums));
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 2, &p.part));
    TRY(pass_run(passes, &made));
    TRY(error_in(scale_weight(&p, weight, passes->current->parameters), "norm '%s'",
                 g->parameters[weight].name));
out:
    matrix_free(&p.sums);
    matrix_free(&p.part);
    return status;
}
