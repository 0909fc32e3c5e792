#include "exec/ops/operator_code.h"

static grail_status run_linear(const node_run *r)
{
    matrix weight = no_matrix;
    CHECK(parameter_store_get_weight(r->store, r->node->weight, &weight));
    return matrix_linear(r->x[0], weight, r->bias, r->y);
}

static grail_status back_linear(node_back *b)
{
    matrix weight = no_matrix;
    if (matrix_exists(b->dweight)) {
        const double beta = b->replaces ? 0.0 : 1.0;
        CHECK(matrix_product(true, false, b->dy, b->run.x[0], beta, b->dweight));
    }
    CHECK(back_add_column_sums(b, b->dy, b->dbias));
    if (b->reaches[0]) {
        CHECK(back_new(b, 0));
        CHECK(parameter_store_get_weight(b->run.store, b->run.node->weight, &weight));
        CHECK(matrix_product(false, false, b->dy, weight, 0.0, b->dx[0]));
    }
    return GRAIL_OK;
}

const operator_code operator_linear = {run_linear, back_linear};
