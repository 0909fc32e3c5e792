#include "exec/ops/operator_code.h"

static grail_status run_shortcut(const node_run *r)
{
    const position_shape shape = positions_of(r);
    return matrix_shortcut(&shape, r->x[0], r->y);
}

static grail_status back_shortcut(node_back *b)
{
    const position_shape shape = positions_of(&b->run);
    CHECK(back_new(b, 0));
    return matrix_shortcut_gradient(&shape, b->dy, b->dx[0]);
}

const operator_code operator_shortcut = {run_shortcut, back_shortcut};
