#include "exec/ops/operator_code.h"

static grail_status run_unit_length(const node_run *r)
{
    return matrix_unit_length(r->x[0], r->y);
}

static grail_status back_unit_length(node_back *b)
{
    const grail_status status = matrix_unit_length_gradient(b->run.x[0], b->dy, b->dy);
    back_pass(b, 0);
    return status;
}

const operator_code operator_unit_length = {run_unit_length, back_unit_length};
