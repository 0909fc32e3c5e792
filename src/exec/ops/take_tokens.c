#include "exec/ops/operator_code.h"

/* The columns of [samples, positions x width] that are taken. */
static matrix taken_of(const node_run *r, matrix x, int64_t width)
{
    const matrix samples = by_sample(r, x);
    const int64_t before = r->node->tokens.left_out * width;
    return matrix_columns(samples, before, samples.columns - before);
}

static grail_status run_take_tokens(const node_run *r)
{
    return matrix_copy(taken_of(r, r->x[0], r->y.columns), by_sample(r, r->y));
}

static grail_status back_take_tokens(node_back *b)
{
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    return matrix_copy(by_sample(&b->run, b->dy), taken_of(&b->run, b->dx[0], b->dy.columns));
}

const operator_code operator_take_tokens = {run_take_tokens, back_take_tokens};
