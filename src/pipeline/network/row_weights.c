#include "pipeline/network/row_weights.h"

#include "backend/operations.h"
#include "pipeline/network/row_factors.h"
#include "stats/row_squares.h"

#include <math.h>

/* squares[rows] = |f_t output_t + skip_t|^2 in the dense network; |output_t|^2 where a norm divides
 * by that before the sum. */
static grail_status square_sums(const calibration_network *network, const consumer_tail *tail,
                                int consumer, int64_t rows, double *squares)
{
    grail_status status = GRAIL_OK;
    const execution *dense = network->dense.execution;
    const matrix output = execution_value(dense, dense->graph->nodes[consumer].output);
    const matrix skip = execution_value(dense, tail->skip);
    row_factors factors = {0};
    matrix sum = {0};
    matrix part = {0};
    if (tail->row_norm != GRAPH_NONE) {
        return row_squares(output, rows, squares);
    }
    TRY(row_factors_find(dense, tail, &factors));
    TRY(matrix_pool_take(network->pool, skip.rows, skip.columns, &sum));
    TRY(matrix_copy(skip, sum));
    TRY(row_factors_gather(&factors, network->pool, &sum));
    TRY(matrix_pool_take(network->pool, output.rows, output.columns, &part));
    TRY(matrix_copy(output, part));
    TRY(row_factors_multiply(&factors, part));
    TRY(matrix_add(part, sum, sum));
    TRY(row_squares(sum, rows, squares));
out:
    row_factors_fini(&factors);
    matrix_pool_give(network->pool, &part);
    matrix_pool_give(network->pool, &sum);
    return status;
}

/* *out[rows] = 1 / |x_t| with the dense sums x_t. */
static grail_status stream_roots(const calibration_network *network, observation *o,
                                 const consumer_tail *tail, int64_t rows, double *values)
{
    const int goal = o->goal.value;
    CHECK(goal != GRAPH_NONE
              ? row_squares(execution_value(network->dense.execution, goal), rows, values)
              : square_sums(network, tail, o->node, rows, values));
    return roots_of_squares(rows, &o->median_square, values);
}

grail_status row_factor_roots(const execution *e, int consumer, double **out)
{
    row_factors factors = {0};
    const consumer_tail tail = consumer_tail_of(e->graph, consumer);
    const grail_status status = row_factors_find(e, &tail, &factors);
    for (int64_t t = 0; status == GRAIL_OK && t < factors.count; t++) {
        factors.of[t] = fabs(factors.of[t]);
    }
    *out = status == GRAIL_OK ? factors.of : NULL;
    if (status == GRAIL_OK) {
        factors.of = NULL;
    }
    row_factors_fini(&factors);
    return status;
}

grail_status row_weight_roots(const calibration_network *network, observation *o, double **out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    double *factors = NULL;
    const graph *g = network->request->graph;
    const consumer_tail tail = consumer_tail_of(g, o->node);
    const int goal = o->goal.value;
    const int output = goal != GRAPH_NONE ? goal : g->nodes[o->node].output;
    const int64_t rows = o->weighted ? execution_rows(network->dense.execution, output) : 0;
    TRY(row_factor_roots(network->current.execution, o->node, &factors));
    if (rows > 0) {
        TRY(memory_new_unset(&values, (size_t)rows, sizeof values[0]));
        TRY(stream_roots(network, o, &tail, rows, values));
    }
    for (int64_t t = 0; values != NULL && factors != NULL && t < rows; t++) {
        values[t] *= factors[t];
    }
    *out = values != NULL ? values : factors;
    factors = values != NULL ? factors : NULL;
    values = NULL;
out:
    memory_free(factors);
    memory_free(values);
    return status;
}

grail_status row_weights_begin(const calibration_network *network, observation *o)
{
    grail_status status = GRAIL_OK;
    double *roots = NULL;
    const grail_comm *comm = network->request->comm;
    if (!o->weighted || !comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    if (comm_rank(comm) == 0) {
        TRY(row_weight_roots(network, o, &roots));
    }
    TRY(comm_broadcast(comm, 0, &o->median_square, sizeof o->median_square));
out:
    memory_free(roots);
    return status;
}
