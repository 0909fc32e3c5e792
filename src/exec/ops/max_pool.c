#include "exec/ops/operator_code.h"

static grail_status run_max_pool(const node_run *r)
{
    const conv_shape shape = window_of(r, r->x[0].columns);
    return matrix_max_pool(&shape, r->x[0], r->y);
}

static grail_status back_max_pool(node_back *b)
{
    const conv_shape shape = window_of(&b->run, b->dy.columns);
    CHECK(back_new(b, 0));
    return matrix_max_pool_gradient(&shape, b->run.x[0], b->dy, b->dx[0]);
}

const operator_code operator_max_pool = {run_max_pool, back_max_pool};
