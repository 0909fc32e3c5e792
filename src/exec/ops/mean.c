#include "exec/ops/operator_code.h"

static grail_status run_mean(const node_run *r)
{
    return matrix_mean_positions(r->x[0], r->y);
}

/* Every position gets an equal share. */
static grail_status back_mean(node_back *b)
{
    const int64_t samples = b->dy.rows;
    CHECK(back_new(b, 0));
    const int64_t positions = b->dx[0].rows / samples;
    CHECK(matrix_scale(1.0 / (double)positions, b->dy, b->dy));
    for (int64_t s = 0; s < samples; s++) {
        CHECK(matrix_copy(matrix_repeat_row(matrix_rows(b->dy, s, 1), positions),
                          matrix_rows(b->dx[0], s * positions, positions)));
    }
    return GRAIL_OK;
}

const operator_code operator_mean = {run_mean, back_mean};
