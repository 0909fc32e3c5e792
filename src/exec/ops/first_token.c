#include "exec/ops/operator_code.h"

static grail_status run_first_token(const node_run *r)
{
    return matrix_copy(matrix_columns(by_sample(r, r->x[0]), 0, r->y.columns), r->y);
}

static grail_status back_first_token(node_back *b)
{
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    return matrix_copy(b->dy, matrix_columns(by_sample(&b->run, b->dx[0]), 0, b->dy.columns));
}

const operator_code operator_first_token = {run_first_token, back_first_token};
