#include "exec/ops/operator_code.h"

#include <math.h>

/* What the node takes of channels [first, first + channels) of its input. */
typedef struct response {
    matrix lengths;  /* [samples, channels] f64: sqrt(sum x^2) over the positions */
    matrix inverses; /* [1, samples] f64: 1 / (mean of the lengths + epsilon) */
    matrix shares;   /* [samples, channels]: the lengths times that */
} response;

static void response_fini(const node_run *r, response *of)
{
    matrix_free(&of->lengths);
    matrix_free(&of->inverses);
    matrix_pool_give(r->pool, &of->shares);
}

/* response_fini frees what is there, also of a failure. */
static grail_status respond(const node_run *r, int64_t first, int64_t channels, response *of)
{
    grail_status status = GRAIL_OK;
    const matrix x = matrix_columns(r->x[0], first, channels);
    const int64_t positions = x.rows / r->samples;
    const clamp_attributes more = {-HUGE_VAL, HUGE_VAL, r->node->norm.epsilon};
    matrix means = {0};
    *of = (response){0};
    TRY(matrix_new_zero(x.owner, GRAIL_DTYPE_F64, r->samples, channels, &of->lengths));
    TRY(matrix_new_zero(x.owner, GRAIL_DTYPE_F64, 1, r->samples, &of->inverses));
    TRY(matrix_pool_take(r->pool, r->samples, channels, &of->shares));
    TRY(matrix_pool_take(r->pool, r->samples, 1, &means));
    for (int64_t s = 0; s < r->samples; s++) {
        TRY(matrix_column_sums(matrix_rows(x, s * positions, positions), no_matrix, no_matrix,
                               matrix_rows(of->lengths, s, 1)));
    }
    TRY(matrix_roots(1.0, 0.0, of->lengths, of->lengths));
    TRY(matrix_copy(of->lengths, of->shares));
    TRY(matrix_mean_positions(matrix_reshape(of->shares, r->samples * channels, 1), means));
    TRY(matrix_clamp(&more, means, means));
    TRY(matrix_copy(matrix_reshape(means, 1, r->samples), of->inverses));
    TRY(matrix_inverses(of->inverses, of->inverses));
    TRY(matrix_scale_rows(of->inverses, of->shares, of->shares));
out:
    matrix_pool_give(r->pool, &means);
    return status;
}

static grail_status run_part(const node_run *r, int64_t first, int64_t channels)
{
    response of;
    grail_status status = respond(r, first, channels, &of);
    status = status != GRAIL_OK
                 ? status
                 : matrix_multiply(of.shares, matrix_columns(r->weight, first, channels),
                                   matrix_columns(r->y, first, channels));
    response_fini(r, &of);
    return status;
}

/* While a width is being cut, the units that stay stand behind all of them, and have a mean of
 * their own. */
static grail_status run_response_norm(const node_run *r)
{
    const int64_t width = r->x[0].columns - r->behind;
    CHECK(run_part(r, 0, width));
    return r->behind > 0 ? run_part(r, width, r->behind) : GRAIL_OK;
}

/* With lengths l, shares u = l q and g = weight dy: dl = q (g - mean(g u)), dx = dl x / l. */
static grail_status back_response_norm(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    const int64_t channels = r->columns[0];
    response of;
    matrix product = {0};
    matrix mean = {0};
    TRY(respond(r, 0, channels, &of));
    TRY(matrix_pool_take(r->pool, r->samples, channels, &product));
    TRY(matrix_pool_take(r->pool, r->samples, 1, &mean));
    TRY(matrix_multiply(b->dy, of.shares, product));
    TRY(back_add_column_sums(b, product, b->dweight));
    TRY(matrix_multiply(product, r->weight, product));
    TRY(matrix_mean_positions(matrix_reshape(product, r->samples * channels, 1), mean));
    TRY(matrix_scale(-1.0, mean, mean));
    TRY(matrix_multiply(b->dy, r->weight, b->dy));
    TRY(matrix_add(b->dy, mean, b->dy));
    TRY(matrix_scale_rows(of.inverses, b->dy, b->dy));
    TRY(matrix_inverses(of.lengths, of.lengths));
    TRY(matrix_copy(of.lengths, product));
    TRY(matrix_multiply(b->dy, product, b->dy));
    TRY(back_new(b, 0));
    TRY(matrix_multiply(r->x[0], b->dy, b->dx[0]));
out:
    response_fini(r, &of);
    matrix_pool_give(r->pool, &product);
    matrix_pool_give(r->pool, &mean);
    return status;
}

const operator_code operator_response_norm = {run_response_norm, back_response_norm};
