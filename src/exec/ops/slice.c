#include "exec/ops/operator_code.h"

/* The columns of X that are taken. */
static matrix taken_of(const node_run *r, matrix x)
{
    return matrix_columns(x, r->node->slice.first, r->node->slice.length);
}

static grail_status run_slice(const node_run *r)
{
    return matrix_copy(taken_of(r, r->x[0]), r->y);
}

static grail_status back_slice(node_back *b)
{
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    return matrix_copy(b->dy, taken_of(&b->run, b->dx[0]));
}

const operator_code operator_slice = {run_slice, back_slice};
