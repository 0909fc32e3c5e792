#include "exec/ops/operator_code.h"

static grail_status run_first_token(const node_run *r)
{
    return matrix_copy(matrix_columns(by_sample(r, r->x[0]), 0, r->y.columns), r->y);
}

static grail_status back_first_token(node_back *b)
{
    grail_status status = GRAIL_OK;
    TRY(back_new(b, 0));
    TRY(matrix_zero(b->dx[0]));
    TRY(matrix_copy(b->dy, matrix_columns(by_sample(&b->run, b->dx[0]), 0, b->dy.columns)));
out:
    return status;
}

const operator_code operator_first_token = {run_first_token, back_first_token};
