#include "pipeline/network/row_weights.h"

#include "backend/operations.h"
#include "pipeline/request/consumer_tail.h"
#include "stats/row_squares.h"

#include <math.h>

/* squares[rows] = |output_t + skip_t|^2 in the dense network; |output_t|^2 where a norm divides by
 * that before the sum. */
static grail_status square_sums(const calibration_network *network, int consumer, int64_t rows,
                                double *squares)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    const execution *dense = network->dense.execution;
    const matrix output = execution_value(dense, g->nodes[consumer].output);
    const consumer_tail tail = consumer_tail_of(g, consumer);
    const matrix skip = execution_value(dense, tail.skip);
    matrix sum = {0};
    if (tail.row_norm != GRAPH_NONE) {
        return row_squares(output, rows, squares);
    }
    TRY(matrix_pool_take(network->pool, output.rows, output.columns, &sum));
    TRY(matrix_add(output, skip, sum));
    TRY(row_squares(sum, rows, squares));
out:
    matrix_pool_give(network->pool, &sum);
    return status;
}

grail_status row_weight_roots(const calibration_network *network, observation *o, double **out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    const int goal = o->goal.value;
    const int output = goal != GRAPH_NONE ? goal : network->request->graph->nodes[o->node].output;
    const int64_t rows = o->weighted ? execution_rows(network->dense.execution, output) : 0;
    if (rows == 0) {
        *out = NULL;
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&values, (size_t)rows, sizeof values[0]));
    status = goal != GRAPH_NONE
                 ? row_squares(execution_value(network->dense.execution, goal), rows, values)
                 : square_sums(network, o->node, rows, values);
    TRY(status);
    if (o->median_square < 0.0) {
        TRY(median_of(rows, values, &o->median_square));
    }
    for (int64_t t = 0; t < rows; t++) {
        const double square = bounded_square(values[t], o->median_square);
        values[t] = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}
