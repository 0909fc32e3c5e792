#include "exec/ops/operator_code.h"

/* Channels of a group: the columns that one norm runs over. */
static int64_t group_of(const node_run *r, int64_t channels)
{
    return r->node->norm.group == 0 ? channels : r->node->norm.group;
}

/* xn <- the channels of a group from `first` on, normed over all positions of each sample. */
static grail_status norm_group(const node_run *r, int64_t first, matrix xn)
{
    CHECK(matrix_copy(matrix_columns(r->x[0], first, xn.columns), xn));
    const matrix samples = by_sample(r, xn);
    return matrix_layer_norm(r->node->norm.epsilon, samples, no_matrix, no_matrix, samples);
}

static grail_status run_group_norm(const node_run *r)
{
    grail_status status = GRAIL_OK;
    const int64_t group = group_of(r, r->y.columns);
    matrix xn = {0};
    TRY(matrix_pool_take(r->pool, r->y.rows, group, &xn));
    for (int64_t first = 0; first < r->y.columns; first += group) {
        TRY(norm_group(r, first, xn));
        TRY(matrix_copy(xn, matrix_columns(r->y, first, group)));
    }
    TRY(matrix_exists(r->weight) ? matrix_multiply(r->y, r->weight, r->y) : GRAIL_OK);
    TRY(matrix_exists(r->bias) ? matrix_add(r->y, r->bias, r->y) : GRAIL_OK);
out:
    matrix_pool_give(r->pool, &xn);
    return status;
}

/* dweight += column sums of dy xn. */
static grail_status add_weight_gradient(const node_back *b, int64_t first, matrix dy, matrix xn)
{
    if (!matrix_exists(b->dweight)) {
        return GRAIL_OK;
    }
    CHECK(norm_group(&b->run, first, xn));
    CHECK(matrix_multiply(xn, dy, xn));
    return back_add_column_sums(b, xn, matrix_columns(b->dweight, first, xn.columns));
}

/* dx of a group, as of a norm of one row for each sample. */
static grail_status back_group(node_back *b, int64_t first, matrix x, matrix g)
{
    const node_run *r = &b->run;
    const matrix dy = matrix_columns(b->dy, first, g.columns);
    CHECK(add_weight_gradient(b, first, dy, x));
    CHECK(matrix_copy(matrix_columns(r->x[0], first, g.columns), x));
    CHECK(matrix_exists(r->weight)
              ? matrix_multiply(dy, matrix_columns(r->weight, first, g.columns), g)
              : matrix_copy(dy, g));
    CHECK(matrix_layer_norm_gradient(r->node->norm.epsilon, by_sample(r, x), no_matrix,
                                     by_sample(r, g), by_sample(r, g), no_matrix, no_matrix));
    return matrix_copy(g, matrix_columns(b->dx[0], first, g.columns));
}

static grail_status back_group_norm(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    const int64_t group = group_of(r, b->dy.columns);
    matrix x = {0};
    matrix g = {0};
    TRY(back_new(b, 0));
    TRY(matrix_pool_take(r->pool, b->dy.rows, group, &x));
    TRY(matrix_pool_take(r->pool, b->dy.rows, group, &g));
    for (int64_t first = 0; first < b->dy.columns; first += group) {
        TRY(back_group(b, first, x, g));
    }
    TRY(back_add_column_sums(b, b->dy, b->dbias));
out:
    matrix_pool_give(r->pool, &x);
    matrix_pool_give(r->pool, &g);
    return status;
}

const operator_code operator_group_norm = {run_group_norm, back_group_norm};
