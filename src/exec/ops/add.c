#include "exec/ops/broadcast.h"

static grail_status run_add(const node_run *r)
{
    grail_status status = GRAIL_OK;
    matrix made = {0};
    matrix second = {0};
    TRY(broadcast_second(r, &made, &second));
    TRY(matrix_add(r->x[0], second, r->y));
out:
    matrix_pool_give(r->pool, &made);
    return status;
}

static grail_status back_add(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix other = {0};
    if (b->reaches[0] && b->reaches[1]) {
        TRY(matrix_pool_take(b->run.pool, b->dy.rows, b->dy.columns, &other));
        TRY(matrix_copy(b->dy, other));
        TRY(broadcast_back(b, &other));
    } else if (b->reaches[1]) {
        TRY(broadcast_back(b, &b->dy));
    }
    if (b->reaches[0]) {
        back_pass(b, 0);
    }
out:
    matrix_pool_give(b->run.pool, &other);
    return status;
}

const operator_code operator_add = {run_add, back_add};
