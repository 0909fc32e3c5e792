#include "exec/ops/operator_code.h"

static grail_status run_depthwise(const node_run *r)
{
    const conv_shape shape = window_of(r, r->y.columns);
    return matrix_depthwise(&shape, r->node->ceiling, r->x[0], r->weight, r->bias, r->y);
}

static grail_status back_depthwise(node_back *b)
{
    const node_run *r = &b->run;
    const conv_shape shape = window_of(r, b->dy.columns);
    if (b->reaches[0]) {
        CHECK(back_new(b, 0));
    }
    CHECK(matrix_depthwise_gradient(&shape, r->x[0], r->weight, b->dy, b->dx[0], b->dweight));
    return back_add_column_sums(b, b->dy, b->dbias);
}

const operator_code operator_depthwise = {run_depthwise, back_depthwise};
