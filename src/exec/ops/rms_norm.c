#include "exec/ops/operator_code.h"

static grail_status run_rms_norm(const node_run *r)
{
    return matrix_rms_norm(r->node->norm.epsilon, r->x[0], r->weight, r->y);
}

static grail_status back_rms_norm(node_back *b)
{
    const node_run *r = &b->run;
    const grail_status status = matrix_rms_norm_gradient(r->node->norm.epsilon, r->x[0], r->weight,
                                                         b->dy, b->dy, b->dweight);
    back_pass(b, 0);
    return status;
}

const operator_code operator_rms_norm = {run_rms_norm, back_rms_norm};
