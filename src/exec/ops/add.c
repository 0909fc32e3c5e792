#include "exec/ops/operator_code.h"

static grail_status run_add(const node_run *r)
{
    return matrix_add(r->x[0], r->x[1], r->y);
}

static grail_status back_add(node_back *b)
{
    grail_status status = GRAIL_OK;
    if (b->reaches[0] && b->reaches[1]) {
        TRY(matrix_pool_take(b->run.pool, b->dy.rows, b->dy.columns, &b->dx[1]));
        TRY(matrix_copy(b->dy, b->dx[1]));
    }
    back_pass(b, b->reaches[0] ? 0 : 1);
out:
    return status;
}

const operator_code operator_add = {run_add, back_add};
