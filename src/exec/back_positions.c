/* The way back through nodes that look at the positions of a sample. */
#include "exec/node_back.h"

grail_status back_conv2d(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix dx = {0};
    const conv_shape shape = window_of(b->tape->execution, b->node, b->dy.columns);
    if (back_reaches(b, 0)) {
        TRY(back_new(b, 0, &dx));
    }
    TRY(matrix_conv2d_gradient(&shape, back_value(b, 0), b->entries.weight->values, b->dy, dx,
                               b->dweight, b->dbias));
    if (matrix_exists(dx)) {
        TRY(back_give(b, 0, &dx));
    }
out:
    matrix_pool_give(b->tape->execution->pool, &dx);
    return status;
}

grail_status back_max_pool(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix dx = {0};
    const conv_shape shape = window_of(b->tape->execution, b->node, b->dy.columns);
    TRY(back_new(b, 0, &dx));
    TRY(matrix_max_pool_gradient(&shape, back_value(b, 0), b->dy, dx));
    TRY(back_give(b, 0, &dx));
out:
    matrix_pool_give(b->tape->execution->pool, &dx);
    return status;
}

/* A matrix of the pool with the rows of the node's input and the columns of its output. */
static grail_status new_input(const node_back *b, int64_t columns, matrix *out)
{
    const execution *e = b->tape->execution;
    return matrix_pool_take(e->pool, execution_rows(e, b->node->inputs[0]), columns, out);
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
grail_status back_mean(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix dx = {0};
    const int64_t samples = b->dy.rows;
    TRY(new_input(b, b->dy.columns, &dx));
    const int64_t positions = dx.rows / samples;
    TRY(scale(1.0 / (double)positions, b->dy));
    for (int64_t s = 0; s < samples; s++) {
        TRY(matrix_copy(matrix_repeat_row(matrix_rows(b->dy, s, 1), positions),
                        matrix_rows(dx, s * positions, positions)));
    }
    TRY(back_give(b, 0, &dx));
out:
    matrix_pool_give(b->tape->execution->pool, &dx);
    return status;
}

grail_status back_shortcut(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix dx = {0};
    const position_shape shape = position_copy_of(b->tape->execution, b->node);
    TRY(new_input(b, b->dy.columns - 2 * b->node->pad, &dx));
    TRY(matrix_shortcut_gradient(&shape, b->dy, dx));
    TRY(back_give(b, 0, &dx));
out:
    matrix_pool_give(b->tape->execution->pool, &dx);
    return status;
}

grail_status back_class_token(node_back *b)
{
    grail_status status = GRAIL_OK;
    const execution *e = b->tape->execution;
    const int64_t width = b->dy.columns;
    const matrix dy = by_sample(e, b->dy);
    matrix dx = {0};
    if (matrix_exists(b->dweight)) {
        TRY(back_add_column_sums(b, matrix_columns(dy, 0, width),
                                 matrix_reshape(b->dweight, 1, width)));
    }
    if (back_reaches(b, 0)) {
        TRY(new_input(b, width, &dx));
        TRY(matrix_copy(matrix_columns(dy, width, dy.columns - width), by_sample(e, dx)));
        TRY(back_give(b, 0, &dx));
    }
out:
    matrix_pool_give(e->pool, &dx);
    return status;
}

grail_status back_positions(node_back *b)
{
    grail_status status = GRAIL_OK;
    const matrix dy = by_sample(b->tape->execution, b->dy);
    if (matrix_exists(b->dweight)) {
        TRY(back_add_column_sums(b, dy, matrix_reshape(b->dweight, 1, dy.columns)));
    }
    if (back_reaches(b, 0)) {
        TRY(back_give(b, 0, &b->dy));
    }
out:
    return status;
}

grail_status back_first_token(node_back *b)
{
    grail_status status = GRAIL_OK;
    const execution *e = b->tape->execution;
    matrix dx = {0};
    TRY(new_input(b, b->dy.columns, &dx));
    TRY(matrix_zero(dx));
    TRY(matrix_copy(b->dy, matrix_columns(by_sample(e, dx), 0, b->dy.columns)));
    TRY(back_give(b, 0, &dx));
out:
    matrix_pool_give(e->pool, &dx);
    return status;
}
