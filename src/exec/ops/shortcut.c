#include "exec/ops/operator_code.h"

static grail_status run_shortcut(const node_run *r)
{
    const position_shape shape = positions_of(r);
    return matrix_shortcut(&shape, r->x[0], r->y);
}

static grail_status back_shortcut(node_back *b)
{
    grail_status status = GRAIL_OK;
    const position_shape shape = positions_of(&b->run);
    TRY(back_new(b, 0));
    TRY(matrix_shortcut_gradient(&shape, b->dy, b->dx[0]));
out:
    return status;
}

const operator_code operator_shortcut = {run_shortcut, back_shortcut};
