#include "pipeline/network/mixed_rows.h"

#include "backend/operations.h"
#include "stats/row_squares.h"

/* sum_t root_t^2 |x_t|^2 */
static grail_status square_of(matrix x, const double *root, double *out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    TRY(memory_new_unset(&values, (size_t)x.rows, sizeof values[0]));
    TRY(row_squares(x, x.rows, values));
    *out = 0.0;
    for (int64_t i = 0; i < x.rows; i++) {
        *out += root == NULL ? values[i] : root[i] * root[i] * values[i];
    }
out:
    memory_free(values);
    return status;
}

/* X *= factor */
static grail_status scale(double factor, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix factors = no_matrix;
    double *values = NULL;
    TRY(memory_new_unset(&values, (size_t)x.rows, sizeof values[0]));
    for (int64_t i = 0; i < x.rows; i++) {
        values[i] = factor;
    }
    TRY(matrix_import(x.owner, GRAIL_DTYPE_F64, 1, x.rows, x.rows, values, &factors));
    TRY(matrix_scale_rows(factors, x, x));
out:
    matrix_free(&factors);
    memory_free(values);
    return status;
}

grail_status mix_target_rows(observation *o, matrix_pool *pool, const double *root, matrix in,
                             matrix y)
{
    grail_status status = GRAIL_OK;
    matrix local = {0};
    target_gap here = {0};
    TRY(matrix_pool_take(pool, y.rows, y.columns, &local));
    TRY(matrix_linear(in, o->local_weight, o->local_bias, local));
    TRY(square_of(y, root, &here.target));
    TRY(matrix_subtract(y, local, y));
    TRY(square_of(y, root, &here.gap));
    TRY(scale(target_gap_share(&here), y));
    TRY(matrix_add(y, local, y));
    o->part_gap.gap += here.gap;
    o->part_gap.target += here.target;
out:
    matrix_pool_give(pool, &local);
    return status;
}
