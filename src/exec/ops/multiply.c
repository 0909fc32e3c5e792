#include "exec/ops/operator_code.h"

/* Y = A * B elementwise; B may be repeated over Y (operation_list.h). */
static grail_status run_multiply(const node_run *r)
{
    return matrix_multiply(r->x[0], r->x[1], r->y);
}

static grail_status back_multiply(node_back *b)
{
    if (b->reaches[1]) {
        CHECK(back_new(b, 1));
        CHECK(matrix_spread_gradient(b->run.x[0], b->dy, b->dx[1]));
    }
    if (b->reaches[0]) {
        CHECK(matrix_multiply(b->dy, b->run.x[1], b->dy));
        back_pass(b, 0);
    }
    return GRAIL_OK;
}

const operator_code operator_multiply = {run_multiply, back_multiply};
