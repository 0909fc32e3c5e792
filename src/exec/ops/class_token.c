#include "exec/ops/operator_code.h"

static grail_status run_class_token(const node_run *r)
{
    const int64_t width = r->y.columns;
    const matrix y = by_sample(r, r->y);
    CHECK(matrix_copy(matrix_repeat_row(matrix_reshape(r->weight, 1, width), y.rows),
                      matrix_columns(y, 0, width)));
    return matrix_copy(by_sample(r, r->x[0]), matrix_columns(y, width, y.columns - width));
}

static grail_status back_class_token(node_back *b)
{
    const int64_t width = b->dy.columns;
    const matrix dy = by_sample(&b->run, b->dy);
    if (matrix_exists(b->dweight)) {
        CHECK(back_add_column_sums(b, matrix_columns(dy, 0, width),
                                   matrix_reshape(b->dweight, 1, width)));
    }
    if (b->reaches[0]) {
        CHECK(back_new(b, 0));
        CHECK(matrix_copy(matrix_columns(dy, width, dy.columns - width),
                          by_sample(&b->run, b->dx[0])));
    }
    return GRAIL_OK;
}

const operator_code operator_class_token = {run_class_token, back_class_token};
