/* Nodes that look at the positions of a sample: windows over images, prepended tokens, added
 * position embeddings. */
#include "exec/node_run.h"

matrix by_sample(const execution *e, matrix m)
{
    const int64_t samples = e->shape.samples;
    return matrix_reshape(m, samples, m.rows / samples * m.columns);
}

conv_shape window_of(const execution *e, const node *n, int64_t channels_out)
{
    return (conv_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .channels_in = e->values[n->inputs[0]].columns,
        .channels_out = channels_out,
        .window = n->window,
    };
}

static grail_status check_kernel(const execution *e, const node *n, const int64_t *weight)
{
    const int64_t width = e->values[n->inputs[0]].columns;
    if (weight[1] == width && weight[2] == n->window.kernel_height &&
        weight[3] == n->window.kernel_width) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_INTERNAL,
                     "block %d: '%s' has %lld input channels and a %lld x %lld kernel, but its "
                     "input has %lld channels and its window is %lld x %lld",
                     n->block, e->graph->parameters[n->weight].name, (long long)weight[1],
                     (long long)weight[2], (long long)weight[3], (long long)width,
                     (long long)n->window.kernel_height, (long long)n->window.kernel_width);
}

/* Room for a convolution's output: the buffer of the value added to it, when no later node reads
 * that. */
static grail_status make_convolved(execution *e, int index, int64_t channels, matrix *out)
{
    const node *n = &e->graph->nodes[index];
    if (n->input_count > 1 && n->inputs[1] != n->inputs[0] &&
        e->graph->last_use[n->inputs[1]] == index) {
        e->values[n->output] = e->values[n->inputs[1]];
        *out = e->values[n->output];
        return GRAIL_OK;
    }
    return execution_make(e, n->output, channels, out);
}

grail_status run_conv2d(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const int64_t *weight = p->weight->shape;
    const matrix residual = n->input_count > 1 ? e->values[n->inputs[1]] : no_matrix;
    matrix y = {0};
    TRY(check_kernel(e, n, weight));
    TRY(make_convolved(e, index, weight[0], &y));
    const conv_shape shape = window_of(e, n, weight[0]);
    TRY(matrix_conv2d(&shape, n->rectified, e->values[n->inputs[0]], p->weight->values,
                      entry_values(p->bias), residual, y));
out:
    return status;
}

grail_status run_max_pool(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const conv_shape shape = window_of(e, n, x.columns);
    matrix y = {0};
    TRY(execution_make(e, n->output, x.columns, &y));
    TRY(matrix_max_pool(&shape, x, y));
out:
    return status;
}

grail_status run_mean(execution *e, const node *n)
{
    const matrix x = e->values[n->inputs[0]];
    matrix y = {0};
    const grail_status status = execution_make(e, n->output, x.columns, &y);
    return status == GRAIL_OK ? matrix_mean_positions(x, y) : status;
}

position_shape position_copy_of(const execution *e, const node *n)
{
    return (position_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .window = n->window,
        .pad = n->pad,
    };
}

grail_status run_shortcut(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const position_shape shape = position_copy_of(e, n);
    matrix y = {0};
    TRY(execution_make(e, n->output, x.columns + 2 * n->pad, &y));
    TRY(matrix_shortcut(&shape, x, y));
out:
    return status;
}

grail_status run_patches(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const window2d *w = &n->window;
    const matrix x = e->values[n->inputs[0]];
    const position_shape shape = position_copy_of(e, n);
    matrix y = {0};
    if (w->padding != 0 || w->dilation != 1) {
        FAIL(GRAIL_ERROR_INTERNAL, "cannot make patches with padding or dilation");
    }
    TRY(execution_make(e, n->output, x.columns * w->kernel_height * w->kernel_width, &y));
    TRY(matrix_windows(&shape, x, y));
out:
    return status;
}

grail_status run_class_token(execution *e, const node *n, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    matrix made = {0};
    TRY(execution_make(e, n->output, x.columns, &made));
    const matrix y = by_sample(e, made);
    const matrix token = matrix_repeat_row(matrix_reshape(p->weight->values, 1, x.columns), y.rows);
    TRY(matrix_copy(token, matrix_columns(y, 0, x.columns)));
    TRY(matrix_copy(by_sample(e, x), matrix_columns(y, x.columns, y.columns - x.columns)));
out:
    return status;
}

grail_status run_first_token(execution *e, const node *n)
{
    const matrix x = e->values[n->inputs[0]];
    matrix y = {0};
    const grail_status status = execution_make(e, n->output, x.columns, &y);
    return status == GRAIL_OK ? matrix_copy(matrix_columns(by_sample(e, x), 0, x.columns), y)
                              : status;
}

/* The table as values, read as f32, in which trained networks keep it. *out is taken from the
 * pool. */
static grail_status table_values(execution *e, const double *table, int64_t count, matrix *out)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    TRY(matrix_pool_take(e->pool, 1, count, out));
    TRY(host_view_open(*out, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t i = 0; i < count; i++) {
        ((float *)v.values)[i] = (float)table[i];
    }
    TRY(host_view_close(&v));
out:
    return status;
}

grail_status run_positions(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const matrix x = by_sample(e, e->values[n->inputs[0]]);
    matrix table = {0};
    matrix y = {0};
    if (p->weight == NULL) {
        TRY(table_values(e, n->table, x.columns, &table));
    }
    const matrix added =
        p->weight == NULL ? table : matrix_reshape(p->weight->values, 1, x.columns);
    TRY(execution_make_elementwise(e, index, &y));
    TRY(matrix_add(x, matrix_repeat_row(added, x.rows), by_sample(e, y)));
out:
    matrix_pool_give(e->pool, &table);
    return status;
}
