#include "exec/ops/operator_code.h"

static grail_status run_patches(const node_run *r)
{
    const position_shape shape = positions_of(r);
    if (shape.window.padding != 0 || shape.window.dilation != 1) {
        return error_set(GRAIL_ERROR_INTERNAL, "cannot make patches with padding or dilation");
    }
    return matrix_windows(&shape, r->x[0], r->y);
}

const operator_code operator_patches = {.run = run_patches}; /* it reads the network's input */
