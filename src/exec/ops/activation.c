#include "exec/ops/operator_code.h"

static grail_status run_activation(const node_run *r)
{
    return matrix_activate(r->node->activation, r->x[0], r->y);
}

static grail_status back_activation(node_back *b)
{
    const grail_status status =
        matrix_activate_gradient(b->run.node->activation, b->run.x[0], b->dy, b->dy);
    back_pass(b, 0);
    return status;
}

const operator_code operator_activation = {run_activation, back_activation};
