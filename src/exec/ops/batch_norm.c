#include "exec/ops/operator_code.h"

static grail_status run_batch_norm(const node_run *r)
{
    return matrix_batch_norm(r->node->norm.epsilon, r->x[0], r->mean, r->variance, r->weight,
                             r->bias, r->y);
}

static grail_status back_batch_norm(node_back *b)
{
    const node_run *r = &b->run;
    const grail_status status =
        matrix_batch_norm_gradient(r->node->norm.epsilon, r->x[0], r->mean, r->variance, r->weight,
                                   b->dy, b->dy, b->dweight, b->dbias);
    back_pass(b, 0);
    return status;
}

const operator_code operator_batch_norm = {run_batch_norm, back_batch_norm};
