#include "exec/ops/operator_code.h"

static grail_status run_conv2d(const node_run *r)
{
    const conv_shape shape = window_of(r, r->y.columns);
    return matrix_conv2d(&shape, r->node->ceiling, r->x[0], r->weight, r->bias, r->x[1], r->y);
}

static grail_status back_conv2d(node_back *b)
{
    const node_run *r = &b->run;
    const conv_shape shape = window_of(r, b->dy.columns);
    if (b->reaches[0]) {
        CHECK(back_new(b, 0));
    }
    return matrix_conv2d_gradient(&shape, r->x[0], r->weight, b->dy, b->dx[0], b->dweight,
                                  b->dbias);
}

const operator_code operator_conv2d = {run_conv2d, back_conv2d};
