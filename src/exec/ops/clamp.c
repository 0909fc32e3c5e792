#include "exec/ops/operator_code.h"

static grail_status run_clamp(const node_run *r)
{
    return matrix_clamp(&r->node->clamp, r->x[0], r->y);
}

static grail_status back_clamp(node_back *b)
{
    const grail_status status =
        matrix_clamp_gradient(&b->run.node->clamp, b->run.x[0], b->dy, b->dy);
    back_pass(b, 0);
    return status;
}

const operator_code operator_clamp = {run_clamp, back_clamp};
