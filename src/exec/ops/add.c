#include "exec/ops/operator_code.h"

/* Y = A + B; B may be repeated over Y (operation_list.h). */
static grail_status run_add(const node_run *r)
{
    return matrix_add(r->x[0], r->x[1], r->y);
}

static grail_status back_add(node_back *b)
{
    if (b->reaches[1]) {
        CHECK(back_new(b, 1));
        CHECK(matrix_spread_gradient(no_matrix, b->dy, b->dx[1]));
    }
    if (b->reaches[0]) {
        back_pass(b, 0);
    }
    return GRAIL_OK;
}

const operator_code operator_add = {run_add, back_add};
