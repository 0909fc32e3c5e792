#include "exec/ops/operator_code.h"

static grail_status run_patches(const node_run *r)
{
    const position_shape shape = positions_of(r);
    return matrix_windows(&shape, r->x[0], r->y);
}

const operator_code operator_patches = {.run = run_patches}; /* it reads the network's input */
