#include "pipeline/network/mixed_rows.h"

#include "backend/operations.h"

grail_status mix_target_rows(observation *o, matrix_pool *pool, const double *root, matrix in,
                             matrix y)
{
    grail_status status = GRAIL_OK;
    matrix local = {0};
    TRY(matrix_pool_take(pool, y.rows, y.columns, &local));
    TRY(matrix_linear(in, o->local_weight, o->local_bias, local));
    TRY(target_mix_rows(root, local, y, &o->part_gap));
out:
    matrix_pool_give(pool, &local);
    return status;
}
