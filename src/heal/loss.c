#include "heal/loss.h"

#include "stats/row_squares.h"

/* weights[rows] = 1 / |t_r|^2 within its bounds, or 0 where all of T is zero. */
static grail_status row_weights(matrix target, int64_t rows, double *weights)
{
    double median = 0.0;
    CHECK(row_squares(target, rows, weights));
    CHECK(median_of(rows, weights, &median));
    for (int64_t r = 0; r < rows; r++) {
        const double square = bounded_square(weights[r], median);
        weights[r] = square > 0.0 ? 1.0 / square : 0.0;
    }
    return GRAIL_OK;
}

/* gradient = 2 scale w_r (y_r - t_r), of which it holds the difference. */
static grail_status scale_difference(double scale, const double *weights, matrix gradient)
{
    grail_status status = GRAIL_OK;
    matrix factors = {0};
    host_view v = {0};
    TRY(matrix_new(gradient.owner, GRAIL_DTYPE_F64, 1, gradient.rows, &factors));
    TRY(host_view_open(factors, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t r = 0; r < gradient.rows; r++) {
        ((double *)v.values)[r] = 2.0 * scale * weights[r];
    }
    TRY(host_view_close(&v));
    TRY(matrix_scale_rows(factors, gradient, gradient));
out:
    host_view_drop(&v);
    matrix_free(&factors);
    return status;
}

grail_status distance_add(matrix y, matrix target, double scale, matrix gradient, double *sum)
{
    grail_status status = GRAIL_OK;
    matrix own = {0};
    double *weights = NULL;
    double *squares = NULL;
    TRY(memory_new_unset(&weights, (size_t)y.rows, sizeof weights[0]));
    TRY(memory_new_unset(&squares, (size_t)y.rows, sizeof squares[0]));
    TRY(row_weights(target, y.rows, weights));
    if (!matrix_exists(gradient)) {
        TRY(matrix_new(y.owner, y.type, y.rows, y.columns, &own));
    }
    const matrix difference = matrix_exists(gradient) ? gradient : own;
    TRY(matrix_subtract(y, target, difference));
    TRY(row_squares(difference, y.rows, squares));
    for (int64_t r = 0; r < y.rows; r++) {
        *sum += weights[r] * squares[r];
    }
    if (matrix_exists(gradient)) {
        TRY(scale_difference(scale, weights, gradient));
    }
out:
    memory_free(weights);
    memory_free(squares);
    matrix_free(&own);
    return status;
}

grail_status divergence_add(matrix y, matrix target, double scale, matrix gradient, double *sum)
{
    grail_status status = GRAIL_OK;
    double *rows = NULL;
    TRY(memory_new_unset(&rows, (size_t)y.rows, sizeof rows[0]));
    TRY(matrix_divergence(target, y, scale, gradient, rows));
    for (int64_t r = 0; r < y.rows; r++) {
        *sum += rows[r];
    }
out:
    memory_free(rows);
    return status;
}
