#include "pipeline/network/row_weights.h"

#include "backend/operations.h"
#include "stats/row_squares.h"

/* *squares[1, rows] = |f_t output_t + skip_t|^2 in the dense network, with the output as `scale`
 * has it where one stands between; |output_t|^2 where a norm divides by that before the sum. Owned
 * even after a failure. */
static grail_status square_sums(const execution *dense, const consumer_tail *tail, int consumer,
                                const drift_scale *scale, int64_t rows, matrix *squares)
{
    grail_status status = GRAIL_OK;
    const matrix output = execution_value(dense, dense->graph->nodes[consumer].output);
    const matrix skip = execution_value(dense, tail->skip);
    row_factors factors = {0};
    matrix sum = {0};
    matrix part = {0};
    if (tail->row_norm != GRAPH_NONE) {
        return row_squares_make(output, rows, squares);
    }
    if (tail->scale != GRAPH_NONE &&
        scale->forward.columns != output.columns) { /* some were merged */
        return row_squares_make(skip, rows, squares);
    }
    TRY(row_factors_find(dense, tail, &factors));
    TRY(matrix_pool_take(dense->pool, skip.rows, skip.columns, &sum));
    if (tail->scale == GRAPH_NONE && !factors.exist) {
        TRY(matrix_add(output, skip, sum));
    } else {
        TRY(matrix_copy(skip, sum));
        TRY(row_factors_gather(&factors, dense->pool, &sum));
        TRY(matrix_pool_take(dense->pool, output.rows, output.columns, &part));
        TRY(matrix_copy(output, part));
        if (tail->scale != GRAPH_NONE) {
            TRY(matrix_multiply(part, scale->forward, part));
        }
        TRY(row_factors_multiply(&factors, part));
        TRY(matrix_add(part, sum, sum));
    }
    TRY(row_squares_make(sum, rows, squares));
out:
    row_factors_fini(&factors);
    matrix_pool_give(dense->pool, &part);
    matrix_pool_give(dense->pool, &sum);
    return status;
}

grail_status row_weights_of_stream(const execution *dense, int consumer, int goal,
                                   const drift_scale *scale, double *median, matrix *out)
{
    const graph *g = dense->graph;
    const consumer_tail tail = consumer_tail_of(g, consumer);
    const int64_t rows =
        execution_rows(dense, goal != GRAPH_NONE ? goal : g->nodes[consumer].output);
    if (rows == 0) {
        return GRAIL_OK;
    }
    CHECK(goal != GRAPH_NONE ? row_squares_make(execution_value(dense, goal), rows, out)
                             : square_sums(dense, &tail, consumer, scale, rows, out));
    return roots_of_squares(median, *out);
}

grail_status row_weights_put_factors(const execution *e, int consumer, matrix *roots)
{
    row_factors factors = {0};
    const consumer_tail tail = consumer_tail_of(e->graph, consumer);
    grail_status status = row_factors_find(e, &tail, &factors);
    if (status == GRAIL_OK && factors.exist && matrix_exists(*roots)) {
        status = row_factors_multiply(&factors, matrix_reshape(*roots, roots->columns, 1));
    } else if (status == GRAIL_OK && factors.exist) {
        *roots = factors.of;
        factors.of = no_matrix;
    }
    row_factors_fini(&factors);
    return status;
}
