#include "exec/ops/operator_code.h"

static grail_status run_linear(const node_run *r)
{
    matrix weight = no_matrix;
    CHECK(parameter_store_get_weight(r->store, r->node->weight, &weight));
    return matrix_linear(r->x[0], weight, r->bias, r->y);
}

/* dx = dy W. A weight in an order of its own is copied to values first. */
static grail_status make_input_gradient(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix weight = b->run.weight;
    matrix copy = {0};
    if (matrix_is_ordered(weight)) {
        TRY(matrix_pool_take(b->run.pool, weight.rows, weight.columns, &copy));
        TRY(matrix_copy(weight, copy));
        weight = copy;
    }
    TRY(back_new(b, 0));
    TRY(matrix_product(false, false, b->dy, weight, 0.0, b->dx[0]));
out:
    matrix_pool_give(b->run.pool, &copy);
    return status;
}

static grail_status back_linear(node_back *b)
{
    if (matrix_exists(b->dweight)) {
        const double beta = b->replaces ? 0.0 : 1.0;
        CHECK(matrix_product(true, false, b->dy, b->run.x[0], beta, b->dweight));
    }
    CHECK(back_add_column_sums(b, b->dy, b->dbias));
    if (b->reaches[0]) {
        CHECK(make_input_gradient(b));
    }
    return GRAIL_OK;
}

const operator_code operator_linear = {run_linear, back_linear};
