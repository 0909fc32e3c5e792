#include "exec/ops/operator_code.h"

/* Norms columns [first, first + count) by themselves. */
static grail_status norm_part(const node_run *r, int64_t first, int64_t count)
{
    grail_status status = GRAIL_OK;
    matrix part = {0};
    TRY(matrix_pool_take(r->pool, r->y.rows, count, &part));
    TRY(matrix_copy(matrix_columns(r->x[0], first, count), part));
    TRY(matrix_rms_norm(r->node->norm.epsilon, part, matrix_columns(r->weight, first, count),
                        part));
    TRY(matrix_copy(part, matrix_columns(r->y, first, count)));
out:
    matrix_pool_give(r->pool, &part);
    return status;
}

/* While a width is being cut, the units that replace the others stand behind them, and are normed
 * as they will be without them. */
static grail_status run_rms_norm(const node_run *r)
{
    const int64_t width = r->x[0].columns - r->behind;
    if (r->node->norm.group == 0 && r->behind > 0) {
        CHECK(norm_part(r, 0, width));
        return norm_part(r, width, r->behind);
    }
    return matrix_rms_norm(r->node->norm.epsilon, r->x[0], r->weight, r->y);
}

static grail_status back_rms_norm(node_back *b)
{
    const node_run *r = &b->run;
    const grail_status status = matrix_rms_norm_gradient(r->node->norm.epsilon, r->x[0], r->weight,
                                                         b->dy, b->dy, b->dweight);
    back_pass(b, 0);
    return status;
}

const operator_code operator_rms_norm = {run_rms_norm, back_rms_norm};
