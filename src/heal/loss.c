#include "heal/loss.h"

#include "stats/row_squares.h"

/* gradient = 2 scale w_r (y_r - t_r), of which it holds the difference. */
static grail_status scale_difference(double scale, matrix weights, matrix gradient)
{
    grail_status status = GRAIL_OK;
    matrix factors = {0};
    TRY(matrix_new_zero(gradient.owner, GRAIL_DTYPE_F64, 1, gradient.rows, &factors));
    TRY(matrix_add_scaled(2.0 * scale, weights, factors));
    TRY(matrix_scale_rows(factors, gradient, gradient));
out:
    matrix_free(&factors);
    return status;
}

static grail_status add_weighted_squares(matrix weights, matrix x, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix squares = {0};
    TRY(row_squares_make(x, x.rows, &squares));
    /* One row after the other, so that parts of any size give the same sum. */
    TRY(matrix_add_products(matrix_reshape(weights, x.rows, 1), matrix_reshape(squares, x.rows, 1),
                            sum));
out:
    matrix_free(&squares);
    return status;
}

grail_status distance_add(matrix y, matrix target, double scale, matrix gradient, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix own = {0};
    matrix weights = {0};
    TRY(row_squares_make(target, y.rows, &weights));
    TRY(inverses_of_squares(weights));
    if (!matrix_exists(gradient)) {
        TRY(matrix_new(y.owner, y.type, y.rows, y.columns, &own));
    }
    const matrix difference = matrix_exists(gradient) ? gradient : own;
    TRY(matrix_subtract(y, target, difference));
    if (matrix_exists(sum)) {
        TRY(add_weighted_squares(weights, difference, sum));
    }
    if (matrix_exists(gradient)) {
        TRY(scale_difference(scale, weights, gradient));
    }
out:
    matrix_free(&weights);
    matrix_free(&own);
    return status;
}

grail_status divergence_add(matrix y, matrix target, double scale, matrix gradient, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix rows = {0};
    TRY(matrix_new(y.owner, GRAIL_DTYPE_F64, 1, y.rows, &rows));
    TRY(matrix_divergence(target, y, scale, gradient, rows));
    if (matrix_exists(sum)) {
        TRY(matrix_add_products(rows, no_matrix, sum));
    }
out:
    matrix_free(&rows);
    return status;
}
