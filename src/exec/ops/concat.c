#include "exec/ops/operator_code.h"

/* The columns of Y that input i makes. */
static matrix part_of(const node_run *r, matrix y, int i)
{
    int64_t first = 0;
    for (int k = 0; k < i; k++) {
        first += r->columns[k];
    }
    return matrix_columns(y, first, r->columns[i]);
}

static grail_status run_concat(const node_run *r)
{
    for (int i = 0; i < r->node->input_count; i++) {
        CHECK(matrix_copy(r->x[i], part_of(r, r->y, i)));
    }
    return GRAIL_OK;
}

static grail_status back_concat(node_back *b)
{
    for (int i = 0; i < b->run.node->input_count; i++) {
        if (b->reaches[i]) {
            CHECK(back_new(b, i));
            CHECK(matrix_copy(part_of(&b->run, b->dy, i), b->dx[i]));
        }
    }
    return GRAIL_OK;
}

const operator_code operator_concat = {run_concat, back_concat};
