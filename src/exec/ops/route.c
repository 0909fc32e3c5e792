#include "exec/ops/operator_code.h"

/* -- choosing ---------------------------------------------------------------------------------- */

static grail_status run_route(const node_run *r)
{
    CHECK(matrix_watch(r->x[0], 0, "the score of a router is NaN or infinite"));
    return matrix_route(&r->node->route, r->order, r->x[0], r->weight, r->y);
}

static grail_status back_route(node_back *b)
{
    const node_run *r = &b->run;
    CHECK(matrix_route_gradient(&r->node->route, r->x[0], r->weight, b->dy, b->dy));
    back_pass(b, 0);
    return GRAIL_OK;
}

const operator_code operator_route = {run_route, back_route};

/* -- taking rows ------------------------------------------------------------------------------- */

static grail_status run_take_rows(const node_run *r)
{
    return matrix_take_rows(r->routed.rows, r->x[0], r->y);
}

/* Every row goes back to its place. Which rows are chosen has no gradient. */
static grail_status back_take_rows(node_back *b)
{
    if (!b->reaches[0]) {
        return GRAIL_OK;
    }
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    return matrix_add_rows(b->run.routed.rows, no_matrix, b->dy, b->dx[0]);
}

const operator_code operator_take_rows = {run_take_rows, back_take_rows};

/* -- putting them back ------------------------------------------------------------------------- */

static grail_status run_put_rows(const node_run *r)
{
    const matrix sum = r->x[2];
    CHECK(r->y.allocation == sum.allocation ? GRAIL_OK : matrix_copy(sum, r->y));
    return matrix_add_rows(r->routed.rows, r->routed.shares, r->x[0], r->y);
}

/* dx[1] <- in the column of the node's output the products of each row with its gradient. */
static grail_status make_share_gradient(node_back *b, matrix taken)
{
    grail_status status = GRAIL_OK;
    matrix dots = {0};
    matrix values = {0};
    const routed_rows *r = &b->run.routed;
    TRY(back_new(b, 1));
    TRY(matrix_zero(b->dx[1]));
    TRY(matrix_new(taken.owner, GRAIL_DTYPE_F64, 1, r->count, &dots));
    TRY(matrix_row_dots(taken, b->run.x[0], dots));
    TRY(matrix_pool_take(b->run.pool, r->count, 1, &values));
    TRY(matrix_copy(matrix_reshape(dots, r->count, 1), values));
    TRY(r->count == 0 ? GRAIL_OK
                      : matrix_add_rows(r->rows, no_matrix, values,
                                        matrix_columns(b->dx[1], b->run.node->share, 1)));
out:
    matrix_pool_give(b->run.pool, &values);
    matrix_free(&dots);
    return status;
}

static grail_status back_put_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    const routed_rows *r = &b->run.routed;
    matrix taken = {0};
    TRY(matrix_pool_take(b->run.pool, r->count, b->dy.columns, &taken));
    TRY(matrix_take_rows(r->rows, b->dy, taken));
    if (b->reaches[1]) {
        TRY(make_share_gradient(b, taken));
    }
    if (b->reaches[0]) {
        TRY(matrix_scale_rows(r->shares, taken, taken));
        b->dx[0] = taken;
        taken = no_matrix;
    }
    if (b->reaches[2]) {
        back_pass(b, 2);
    }
out:
    matrix_pool_give(b->run.pool, &taken);
    return status;
}

const operator_code operator_put_rows = {run_put_rows, back_put_rows};
