#include "exec/ops/operator_code.h"

static grail_status run_soft_cap(const node_run *r)
{
    return matrix_soft_cap(r->node->cap, r->x[0], r->y);
}

static grail_status back_soft_cap(node_back *b)
{
    const grail_status status = matrix_soft_cap_gradient(b->run.node->cap, b->run.y, b->dy, b->dy);
    back_pass(b, 0);
    return status;
}

const operator_code operator_soft_cap = {run_soft_cap, back_soft_cap};
