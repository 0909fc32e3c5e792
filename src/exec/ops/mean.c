#include "exec/ops/operator_code.h"

static grail_status run_mean(const node_run *r)
{
    return matrix_mean_positions(r->x[0], r->y);
}

/* rows <- factor rows */
static grail_status scale(double factor, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix factors = {0};
    host_view v = {0};
    TRY(matrix_new(x.owner, GRAIL_DTYPE_F64, 1, x.rows, &factors));
    TRY(host_view_open(factors, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t i = 0; i < x.rows; i++) {
        ((double *)v.values)[i] = factor;
    }
    TRY(host_view_close(&v));
    TRY(matrix_scale_rows(factors, x, x));
out:
    host_view_drop(&v);
    matrix_free(&factors);
    return status;
}

/* Every position gets an equal share. */
static grail_status back_mean(node_back *b)
{
    const int64_t samples = b->dy.rows;
    CHECK(back_new(b, 0));
    const int64_t positions = b->dx[0].rows / samples;
    CHECK(scale(1.0 / (double)positions, b->dy));
    for (int64_t s = 0; s < samples; s++) {
        CHECK(matrix_copy(matrix_repeat_row(matrix_rows(b->dy, s, 1), positions),
                          matrix_rows(b->dx[0], s * positions, positions)));
    }
    return GRAIL_OK;
}

const operator_code operator_mean = {run_mean, back_mean};
