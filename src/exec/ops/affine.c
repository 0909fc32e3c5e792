#include "exec/ops/operator_code.h"

#include <math.h>

/* y = scale x * weight; y may be x. */
static grail_status multiply(const node_run *r, matrix x, matrix y)
{
    const double scale = r->node->affine.scale;
    if (!matrix_exists(r->weight)) {
        return matrix_scale(scale, x, y);
    }
    CHECK(matrix_multiply(x, r->weight, y));
    return scale == 1.0 ? GRAIL_OK : matrix_scale(scale, y, y);
}

/* Most nodes have one of the four, which is one pass over the values. */
static grail_status run_affine(const node_run *r)
{
    const affine_attributes *a = &r->node->affine;
    const clamp_attributes add = {.low = -HUGE_VAL, .high = HUGE_VAL, .offset = a->offset};
    const bool multiplies = matrix_exists(r->weight) || a->scale != 1.0;
    matrix x = r->x[0];
    if (multiplies) {
        CHECK(multiply(r, x, r->y));
        x = r->y;
    }
    if (matrix_exists(r->bias)) {
        CHECK(matrix_add(x, r->bias, r->y));
        x = r->y;
    }
    const bool is_done = a->offset == 0.0 && (multiplies || matrix_exists(r->bias));
    return is_done ? GRAIL_OK : matrix_clamp(&add, x, r->y);
}

static grail_status back_affine(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    matrix product = {0};
    TRY(back_add_column_sums(b, b->dy, b->dbias));
    if (matrix_exists(b->dweight)) {
        TRY(matrix_pool_take(r->pool, b->dy.rows, b->dy.columns, &product));
        TRY(matrix_multiply(b->dy, r->x[0], product));
        TRY(matrix_scale(r->node->affine.scale, product, product));
        TRY(back_add_column_sums(b, product, b->dweight));
    }
    TRY(multiply(r, b->dy, b->dy));
    back_pass(b, 0);
out:
    matrix_pool_give(r->pool, &product);
    return status;
}

const operator_code operator_affine = {run_affine, back_affine};
