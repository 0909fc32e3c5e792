/* Nodes that look at the positions of a sample: windows over images, prepended tokens, added
 * position embeddings. Copies of rows are made here, arithmetic by the backend. */
#include "exec/node_run.h"

#include "base/parallel.h"

#include <string.h>

static int64_t positions_of(const execution *e, int value)
{
    return e->extents[value].height * e->extents[value].width;
}

static conv_shape window_shape(const execution *e, const node *n, int64_t channels_out)
{
    return (conv_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .channels_in = e->values[n->inputs[0]].width,
        .channels_out = channels_out,
        .window = n->window,
    };
}

static grail_status check_kernel(const execution *e, const node *n, const int64_t *weight)
{
    const int64_t width = e->values[n->inputs[0]].width;
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
static grail_status make_convolved(execution *e, int index, int64_t channels, void **out)
{
    const node *n = &e->graph->nodes[index];
    if (n->input_count > 1 && n->inputs[1] != n->inputs[0] &&
        e->graph->last_use[n->inputs[1]] == index) {
        e->values[n->output] = e->values[n->inputs[1]];
        *out = e->values[n->output].data;
        return GRAIL_OK;
    }
    return execution_make(e, n->output, channels, out);
}

grail_status run_conv2d(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const int64_t *weight = p->weight->shape;
    const bool has_more = n->rectified || n->input_count > 1;
    void *y = NULL;
    TRY(check_kernel(e, n, weight));
    TRY(make_convolved(e, index, weight[0], &y));
    const conv_shape shape = window_shape(e, n, weight[0]);
    const conv_epilogue epilogue = {
        .residual = n->input_count > 1 ? e->values[n->inputs[1]].data : NULL,
        .relu = n->rectified,
    };
    TRY(e->backend->conv2d(&shape, e->values[n->inputs[0]].data, p->weight->data,
                           entry_data(p->bias), has_more ? &epilogue : NULL, y));
out:
    return status;
}

grail_status run_max_pool(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const conv_shape shape = window_shape(e, n, x.width);
    void *y = NULL;
    TRY(execution_make(e, n->output, x.width, &y));
    TRY(e->backend->max_pool(&shape, x.data, y));
out:
    return status;
}

grail_status run_mean(execution *e, const node *n)
{
    const matrix x = e->values[n->inputs[0]];
    void *y = NULL;
    const grail_status status = execution_make(e, n->output, x.width, &y);
    if (status == GRAIL_OK) {
        e->backend->mean_positions(e->shape.samples, positions_of(e, n->inputs[0]), x.width, x.data,
                                   y);
    }
    return status;
}

/* One row of output positions per index: `index` counts samples x out.height. */
typedef struct copy_job {
    extent in, out;
    window2d window;
    size_t in_bytes, out_bytes; /* of one position */
    size_t pad_bytes;
    const unsigned char *x;
    unsigned char *y;
} copy_job;

static copy_job copy_of(const execution *e, const node *n, void *y)
{
    const matrix *x = &e->values[n->inputs[0]];
    return (copy_job){
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .window = n->window,
        .in_bytes = (size_t)x->width * e->backend->element_size,
        .out_bytes = (size_t)e->values[n->output].width * e->backend->element_size,
        .pad_bytes = (size_t)n->pad * e->backend->element_size,
        .x = x->data,
        .y = y,
    };
}

static const unsigned char *input_position(const copy_job *job, int64_t sample, int64_t row,
                                           int64_t column)
{
    const int64_t index = (sample * job->in.height + row) * job->in.width + column;
    return job->x + (size_t)index * job->in_bytes;
}

static void shortcut_rows(int64_t begin, int64_t end, void *context)
{
    const copy_job *job = context;
    const int64_t stride = job->window.stride;
    for (int64_t index = begin; index < end; index++) {
        unsigned char *y = job->y + (size_t)(index * job->out.width) * job->out_bytes;
        const int64_t row = index % job->out.height * stride;
        for (int64_t column = 0; column < job->out.width; column++, y += job->out_bytes) {
            memset(y, 0, job->pad_bytes);
            memcpy(y + job->pad_bytes,
                   input_position(job, index / job->out.height, row, column * stride),
                   job->in_bytes);
            memset(y + job->pad_bytes + job->in_bytes, 0, job->pad_bytes);
        }
    }
}

grail_status run_shortcut(execution *e, const node *n)
{
    enum { GRAIN = 16 };
    grail_status status = GRAIL_OK;
    void *y = NULL;
    TRY(execution_make(e, n->output, e->values[n->inputs[0]].width + 2 * n->pad, &y));
    copy_job job = copy_of(e, n, y);
    parallel_for(e->shape.samples * job.out.height, GRAIN, shortcut_rows, &job);
out:
    return status;
}

/* A row of a patch is contiguous: position after position, each with all its channels. */
static void patch_samples(int64_t begin, int64_t end, void *context)
{
    const copy_job *job = context;
    const window2d *w = &job->window;
    const int64_t across =
        job->in.width < w->kernel_width ? 0 : (job->in.width - w->kernel_width) / w->stride + 1;
    const int64_t patches = job->out.height; /* one behind the other */
    const size_t piece = (size_t)w->kernel_width * job->in_bytes;
    for (int64_t index = begin * patches; index < end * patches; index++) {
        unsigned char *y = job->y + (size_t)index * job->out_bytes;
        const int64_t top = index % patches / across * w->stride;
        const int64_t left = index % patches % across * w->stride;
        for (int64_t row = 0; row < w->kernel_height; row++) {
            memcpy(y + (size_t)row * piece, input_position(job, index / patches, top + row, left),
                   piece);
        }
    }
}

grail_status run_patches(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const window2d *w = &n->window;
    const matrix x = e->values[n->inputs[0]];
    void *y = NULL;
    if (w->padding != 0 || w->dilation != 1) {
        FAIL(GRAIL_ERROR_INTERNAL, "cannot make patches with padding or dilation");
    }
    TRY(execution_make(e, n->output, x.width * w->kernel_height * w->kernel_width, &y));
    copy_job job = copy_of(e, n, y);
    parallel_for(e->shape.samples, 1, patch_samples, &job);
out:
    return status;
}

grail_status run_class_token(execution *e, const node *n, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const size_t row = (size_t)x.width * e->backend->element_size;
    const size_t others = (size_t)positions_of(e, n->inputs[0]) * row;
    void *y = NULL;
    TRY(execution_make(e, n->output, x.width, &y));
    for (size_t sample = 0; sample < (size_t)e->shape.samples; sample++) {
        unsigned char *to = (unsigned char *)y + sample * (others + row);
        memcpy(to, p->weight->data, row);
        memcpy(to + row, (const unsigned char *)x.data + sample * others, others);
    }
out:
    return status;
}

grail_status run_first_token(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const size_t row = (size_t)x.width * e->backend->element_size;
    const size_t all = (size_t)positions_of(e, n->inputs[0]) * row;
    void *y = NULL;
    TRY(execution_make(e, n->output, x.width, &y));
    for (size_t sample = 0; sample < (size_t)e->shape.samples; sample++) {
        memcpy((unsigned char *)y + sample * row, (const unsigned char *)x.data + sample * all,
               row);
    }
out:
    return status;
}

/* The table as elements, read as f32, in which trained networks keep it. *out is taken from the
 * pool. */
static grail_status table_elements(execution *e, const double *table, int64_t count, void **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)table[i];
    }
    TRY(buffer_pool_take(e->pool, (size_t)count * e->backend->element_size, out));
    e->backend->from_f32(count, values, *out);
out:
    memory_free(values);
    return status;
}

grail_status run_positions(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const matrix x = e->values[n->inputs[0]];
    const int64_t count = positions_of(e, n->inputs[0]) * x.width;
    const size_t bytes = (size_t)count * e->backend->element_size;
    const void *added = entry_data(p->weight);
    void *table = NULL;
    void *y = NULL;
    if (added == NULL) {
        TRY(table_elements(e, n->table, count, &table));
        added = table;
    }
    TRY(execution_make_elementwise(e, index, &y));
    for (size_t sample = 0; sample < (size_t)e->shape.samples; sample++) {
        e->backend->add(count, (const unsigned char *)x.data + sample * bytes, added,
                        (unsigned char *)y + sample * bytes);
    }
out:
    buffer_pool_give(e->pool, table);
    return status;
}
