#include "exec/ops/operator_code.h"

static grail_status run_layer_norm(const node_run *r)
{
    return matrix_layer_norm(r->node->norm.epsilon, r->x[0], r->weight, r->bias, r->y);
}

static grail_status back_layer_norm(node_back *b)
{
    const node_run *r = &b->run;
    const grail_status status = matrix_layer_norm_gradient(
        r->node->norm.epsilon, r->x[0], r->weight, b->dy, b->dy, b->dweight, b->dbias);
    back_pass(b, 0);
    return status;
}

const operator_code operator_layer_norm = {run_layer_norm, back_layer_norm};
