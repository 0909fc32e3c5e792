#include "exec/ops/operator_code.h"

/* The columns of X, with one row for each sample, that are taken. */
static matrix taken_of(const node_run *r, matrix x)
{
    const unpack_attributes *u = &r->node->unpack;
    return matrix_columns(x, u->first, u->channels * u->positions.height * u->positions.width);
}

static grail_status run_unpack(const node_run *r)
{
    const matrix taken = taken_of(r, r->x[0]);
    return matrix_copy(taken, matrix_reshape(r->y, taken.rows, taken.columns));
}

static grail_status back_unpack(node_back *b)
{
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    const matrix taken = taken_of(&b->run, b->dx[0]);
    return matrix_copy(matrix_reshape(b->dy, taken.rows, taken.columns), taken);
}

const operator_code operator_unpack = {run_unpack, back_unpack};
