#include "exec/ops/operator_code.h"

static grail_status run_average_pool(const node_run *r)
{
    const conv_shape shape = window_of(r, r->x[0].columns);
    return matrix_average_pool(&shape, r->node->counts_padding, r->x[0], r->y);
}

static grail_status back_average_pool(node_back *b)
{
    const conv_shape shape = window_of(&b->run, b->dy.columns);
    CHECK(back_new(b, 0));
    return matrix_average_pool_gradient(&shape, b->run.node->counts_padding, b->dy, b->dx[0]);
}

const operator_code operator_average_pool = {run_average_pool, back_average_pool};
