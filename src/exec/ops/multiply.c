#include "exec/ops/broadcast.h"

static grail_status run_multiply(const node_run *r)
{
    grail_status status = GRAIL_OK;
    matrix made = {0};
    matrix second = {0};
    TRY(broadcast_second(r, &made, &second));
    TRY(matrix_multiply(r->x[0], second, r->y));
out:
    matrix_pool_give(r->pool, &made);
    return status;
}

static grail_status back_multiply(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    matrix made = {0};
    matrix second = {0};
    matrix other = {0};
    if (b->reaches[1]) {
        TRY(matrix_pool_take(r->pool, b->dy.rows, b->dy.columns, &other));
        TRY(matrix_multiply(b->dy, r->x[0], other));
        TRY(broadcast_back(b, &other));
    }
    if (b->reaches[0]) {
        TRY(broadcast_second(r, &made, &second));
        TRY(matrix_multiply(b->dy, second, b->dy));
        back_pass(b, 0);
    }
out:
    matrix_pool_give(r->pool, &made);
    matrix_pool_give(r->pool, &other);
    return status;
}

const operator_code operator_multiply = {run_multiply, back_multiply};
