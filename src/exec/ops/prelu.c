#include "exec/ops/operator_code.h"

#include <math.h>

static const clamp_attributes above = {.low = 0.0, .high = HUGE_VAL};
static const clamp_attributes below = {.low = -HUGE_VAL, .high = 0.0};

/* x <- slope x * weight, where the weight may be missing */
static grail_status multiply(const node_run *r, matrix x)
{
    if (matrix_exists(r->weight)) {
        CHECK(matrix_multiply(x, r->weight, x));
    }
    return r->node->slope == 1.0 ? GRAIL_OK : matrix_scale(r->node->slope, x, x);
}

static grail_status run_prelu(const node_run *r)
{
    grail_status status = GRAIL_OK;
    matrix negative = {0};
    TRY(matrix_pool_take(r->pool, r->y.rows, r->y.columns, &negative));
    TRY(matrix_clamp(&below, r->x[0], negative));
    TRY(multiply(r, negative));
    TRY(matrix_clamp(&above, r->x[0], r->y));
    TRY(matrix_add(r->y, negative, r->y));
out:
    matrix_pool_give(r->pool, &negative);
    return status;
}

/* With g = dy where x is 0 or less, else 0: dx = dy - g + slope weight g, dweight = slope g x. */
static grail_status back_prelu(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    matrix part = {0};
    TRY(matrix_pool_take(r->pool, b->dy.rows, b->dy.columns, &part));
    if (matrix_exists(b->dweight)) {
        TRY(matrix_clamp(&below, r->x[0], part));
        TRY(matrix_multiply(part, b->dy, part));
        TRY(matrix_scale(r->node->slope, part, part));
        TRY(back_add_column_sums(b, part, b->dweight));
    }
    TRY(matrix_clamp_gradient(&below, r->x[0], b->dy, part));
    TRY(matrix_subtract(b->dy, part, b->dy));
    TRY(multiply(r, part));
    TRY(matrix_add(b->dy, part, b->dy));
    back_pass(b, 0);
out:
    matrix_pool_give(r->pool, &part);
    return status;
}

const operator_code operator_prelu = {run_prelu, back_prelu};
