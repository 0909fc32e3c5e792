/* Observing: statistics of a consumer's input, and of the target it should produce. Rows are tokens
 * or positions; a convolution that is fitted tap by tap is observed on its unfolded patches. */
#include "pipeline/compression.h"
#include "pipeline/request/consumer_tail.h"

#include <math.h>
#include <string.h>

/* Patches are made and added in pieces of about this many elements. */
enum { PIECE_ELEMENTS = 8 << 20 };

static const node *observed_node(const grail_compression *c, const observation *o)
{
    return &c->request->graph->nodes[o->node];
}

static bool target_is_dense(const grail_compression *c)
{
    return c->request->plan.compensation.target == TARGET_DENSE &&
           c->request->plan.loop == LOOP_CLOSED;
}

/* Statistics are taken of the reduced input alone where it folds: then the target must be given. */
static bool has_target(const grail_compression *c, const observation *o)
{
    return c->request->plan.compensation.enabled && (o->folds || target_is_dense(c));
}

/* A convolution fitted by channel is observed at all positions of its input. Where its output has
 * others, or each is a sum over taps, a dense target is made tap by tap from the dense input. */
static bool target_by_tap(const grail_compression *c, const observation *o)
{
    const node *n = observed_node(c, o);
    return target_is_dense(c) && n->kind == NODE_CONV2D &&
           c->request->plan.compensation.conv == CONV_FIT_CHANNEL &&
           (o->layout.tap_rows > 1 || n->window.stride > 1);
}

void observation_fini(observation *o)
{
    grail_statistics_free(o->fit);
    grail_statistics_free(o->held);
    memory_free(o->weight);
    memory_free(o->target_weight);
    *o = (observation){0};
}

static grail_status to_elements(const backend *b, int64_t count, const float *values, void **out)
{
    const grail_status status = memory_new(out, (size_t)count, b->element_size);
    if (status == GRAIL_OK) {
        b->from_f32(count, values, *out);
    }
    return status;
}

/* What the input's columns are multiplied with to make the target: W, and for the folded columns
 * behind the others, of the same input, zero. */
static grail_status make_target_weight(const grail_compression *c, observation *o, int64_t wide)
{
    grail_status status = GRAIL_OK;
    float *padded = NULL;
    const int64_t rows = o->layout.rows * o->layout.tap_rows;
    const int64_t width = o->layout.features * o->layout.taps;
    TRY(memory_new(&padded, (size_t)(rows * wide), sizeof padded[0]));
    for (int64_t r = 0; r < rows; r++) {
        memcpy(padded + r * wide, o->weight + r * width, (size_t)width * sizeof padded[0]);
    }
    TRY(to_elements(c->request->backend, rows * wide, padded, &o->target_weight));
out:
    memory_free(padded);
    return status;
}

static observation describe(const grail_compression *c, int index, int consumer)
{
    const bool folds = selector_folds(c->request->plan.sites[index].selector) &&
                       c->request->plan.loop == LOOP_CLOSED;
    const consumer_layout layout = consumer_layout_of(c, index, consumer);
    return (observation){
        .site = index,
        .consumer = consumer,
        .node = c->request->sites->list.sites[index].consumers[consumer].node,
        .folds = folds,
        .layout = layout,
        .unreduced = folds ? layout.features : 0,
    };
}

static grail_status create_statistics(int64_t width, int64_t outputs, observation *o)
{
    grail_status status = GRAIL_OK;
    TRY(grail_statistics_create(width, outputs, &o->fit));
    TRY(grail_statistics_create(width, outputs, &o->held));
out:
    return status;
}

grail_status observation_init(grail_compression *c, int index, int consumer, observation *o)
{
    grail_status status = GRAIL_OK;
    *o = describe(c, index, consumer);
    const site_end *end = &c->request->sites->list.sites[index].consumers[consumer];
    const int64_t reduced = c->request->plan.sites[index].kept * end->features_per_unit;
    const int64_t dense_width = o->layout.features * o->layout.taps;
    const int64_t reduced_width = reduced * o->layout.taps;
    const int64_t outputs = has_target(c, o) ? o->layout.rows * o->layout.tap_rows : 0;
    TRY(consumer_read(c, index, consumer, &o->weight));
    if (target_by_tap(c, o)) {
        TRY(make_target_weight(c, o, dense_width));
    } else if (outputs > 0 && !target_is_dense(c)) {
        TRY(make_target_weight(c, o, dense_width + reduced_width));
    }
    TRY(create_statistics(o->folds ? reduced_width : dense_width, outputs, o));
out:
    if (status != GRAIL_OK) {
        observation_fini(o);
    }
    return status;
}

grail_status observation_init_input(grail_compression *c, int index, int consumer, observation *o)
{
    *o = describe(c, index, consumer);
    const grail_status status = create_statistics(o->layout.features * o->layout.taps, 0, o);
    if (status != GRAIL_OK) {
        observation_fini(o);
    }
    return status;
}

int observation_dense_end(const grail_compression *c, const observation *o)
{
    if (!target_is_dense(c)) {
        return GRAPH_NONE;
    }
    return target_by_tap(c, o) ? o->node : o->node + 1;
}

/* -- the dense target ----------------------------------------------------------------------------
 */

/* A copy of a dense value [rows, n u]; where the calibration network has merged channels there,
 * with their means behind it, [X | X M]. *out is of the pool. */
static grail_status copy_with_means(grail_compression *c, const cut_axis *axis, const matrix *in,
                                    void **out)
{
    grail_status status = GRAIL_OK;
    float *narrow = NULL;
    float *wide = NULL;
    const backend *b = c->request->backend;
    const int64_t width =
        axis->site == GRAPH_NONE ? in->width : cut_wide_features(&c->request->plan, axis);
    TRY(buffer_pool_take(c->network->pool, (size_t)(in->rows * width) * b->element_size, out));
    if (width == in->width) {
        memcpy(*out, in->data, (size_t)(in->rows * width) * b->element_size);
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&narrow, (size_t)(in->rows * in->width), sizeof narrow[0]));
    TRY(memory_new_unset(&wide, (size_t)(in->rows * width), sizeof wide[0]));
    b->to_f32(in->rows * in->width, in->data, narrow);
    reducer_append_means(c->network->results[axis->site].reducer, axis->features, in->rows, narrow,
                         wide);
    b->from_f32(in->rows * width, wide, *out);
out:
    memory_free(narrow);
    memory_free(wide);
    return status;
}

/* Per channel sqrt(variance + epsilon) / weight: what one unit behind a BatchNorm is before it.
 * Channels that the BatchNorm all but switches off get 0: nothing before it can move them. */
static grail_status inverse_scale(grail_compression *c, const node *norm, int64_t width, float *out)
{
    grail_status status = GRAIL_OK;
    static const double smallest = 1e-4; /* of the largest weight */
    float *weight = NULL;
    float *variance = NULL;
    int64_t count = 0;
    double largest = 0.0;
    TRY(parameter_store_read_f32(c->network->current.parameters, norm->weight, &weight, &count));
    TRY(parameter_store_read_f32(c->network->current.parameters, norm->variance, &variance,
                                 &count));
    for (int64_t k = 0; k < width; k++) {
        largest = fmax(largest, fabs((double)weight[k]));
    }
    for (int64_t k = 0; k < width; k++) {
        const bool off = fabs((double)weight[k]) <= smallest * largest;
        out[k] =
            off ? 0.0F : (float)(sqrt((double)variance[k] + norm->epsilon) / (double)weight[k]);
    }
out:
    memory_free(weight);
    memory_free(variance);
    return status;
}

/* X[rows, width] *= 1 scale^T, as a BatchNorm of mean 0 and variance 1. */
static grail_status scale_columns(grail_compression *c, int64_t rows, int64_t width,
                                  const float *scale, void *x)
{
    grail_status status = GRAIL_OK;
    float *plain = NULL;
    void *zeros = NULL;
    void *ones = NULL;
    void *weight = NULL;
    TRY(memory_new(&plain, (size_t)width, sizeof plain[0]));
    TRY(to_elements(c->request->backend, width, plain, &zeros));
    for (int64_t k = 0; k < width; k++) {
        plain[k] = 1.0F;
    }
    TRY(to_elements(c->request->backend, width, plain, &ones));
    TRY(to_elements(c->request->backend, width, scale, &weight));
    c->request->backend->batch_norm(rows, width, 0.0, x, zeros, ones, weight, NULL, x);
out:
    memory_free(plain);
    memory_free(zeros);
    memory_free(ones);
    memory_free(weight);
    return status;
}

/* Y += (dense skip - compressed skip), brought before the BatchNorm that stands between: what the
 * consumer has to give so that the sum behind it is what the dense network had. */
static grail_status add_drift(grail_compression *c, const observation *o, const consumer_tail *tail,
                              void *y)
{
    grail_status status = GRAIL_OK;
    void *drift = NULL;
    float *scale = NULL;
    const graph *g = c->request->graph;
    const matrix *compressed = execution_value(c->network->current.execution, tail->skip);
    const int64_t count = compressed->rows * compressed->width;
    TRY(copy_with_means(c, &c->request->cuts[observed_node(c, o)->weight].rows,
                        execution_value(c->network->dense.execution, tail->skip), &drift));
    c->request->backend->subtract(count, drift, compressed->data, drift);
    if (tail->batch_norm != GRAPH_NONE) {
        TRY(memory_new(&scale, (size_t)compressed->width, sizeof scale[0]));
        TRY(inverse_scale(c, &g->nodes[tail->batch_norm], compressed->width, scale));
        TRY(scale_columns(c, compressed->rows, compressed->width, scale, drift));
    }
    c->request->backend->add(count, y, drift, y);
out:
    buffer_pool_give(c->network->pool, drift);
    memory_free(scale);
    return status;
}

/* Y[rows, outputs] = the dense network's own output at this consumer, plus the drift. */
static grail_status dense_target(grail_compression *c, const observation *o, void **out)
{
    grail_status status = GRAIL_OK;
    const node *n = observed_node(c, o);
    const consumer_tail tail = consumer_tail_of(c->request->graph, o->node);
    void *y = NULL;
    TRY(copy_with_means(c, &c->request->cuts[n->weight].rows,
                        execution_value(c->network->dense.execution, n->output), &y));
    if (tail.skip != GRAPH_NONE) {
        TRY(add_drift(c, o, &tail, y));
    }
    *out = y;
    y = NULL;
out:
    buffer_pool_give(c->network->pool, y);
    return status;
}

/* -- rows of the input ---------------------------------------------------------------------------
 */

/* Rows of a consumer's input, or patches of it, in one batch. */
typedef struct input_rows {
    const void *data;
    int64_t rows, width;
} input_rows;

static const void *row_at(const grail_compression *c, const void *base, int64_t row, int64_t width)
{
    return (const unsigned char *)base + (size_t)(row * width) * c->request->backend->element_size;
}

/* Rows whose target is made, in pieces: the target has taps times as many columns as the consumer
 * has outputs. */
static grail_status add_rows_with_target(grail_compression *c, const observation *o,
                                         grail_statistics *into, const input_rows *in,
                                         const input_rows *source)
{
    grail_status status = GRAIL_OK;
    void *y = NULL;
    const backend *b = c->request->backend;
    const int64_t offset = o->unreduced * o->layout.taps;
    int64_t step = PIECE_ELEMENTS / into->outputs;
    step = step < 1 ? 1 : step;
    step = step > in->rows ? in->rows : step;
    TRY(buffer_pool_take(c->network->pool, (size_t)(step * into->outputs) * b->element_size, &y));
    for (int64_t begin = 0; begin < in->rows; begin += step) {
        const int64_t rows = begin + step < in->rows ? step : in->rows - begin;
        b->linear(rows, source->width, into->outputs, row_at(c, source->data, begin, source->width),
                  o->target_weight, NULL, y);
        TRY(statistics_accumulate(into, b, rows, row_at(c, in->data, 1, begin * in->width + offset),
                                  in->width, y, into->outputs));
    }
out:
    buffer_pool_give(c->network->pool, y);
    return status;
}

/* Adds rows to the statistics: the reduced columns of `in`, and a target that is given
 * (y[rows, outputs]) or made from `source`'s columns. */
static grail_status add_rows(grail_compression *c, const observation *o, grail_statistics *into,
                             const input_rows *in, const void *y, const input_rows *source)
{
    const int64_t offset = o->unreduced * o->layout.taps;
    if (into->outputs > 0 && y == NULL) {
        return add_rows_with_target(c, o, into, in, source);
    }
    return statistics_accumulate(into, c->request->backend, in->rows,
                                 row_at(c, in->data, 1, offset), in->width, y, into->outputs);
}

static conv_shape shape_of_conv(const grail_compression *c, const observation *o,
                                const execution *e)
{
    const node *n = observed_node(c, o);
    const graph_parameter *weight = &c->request->graph->parameters[n->weight];
    window2d window = n->window;
    window.kernel_height = weight->shape[2];
    window.kernel_width = weight->shape[3];
    return (conv_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .channels_in = execution_value(e, n->inputs[0])->width,
        .channels_out = o->layout.rows,
        .window = window,
    };
}

/* Patches in pieces: all of them would be kernel^2 times the input. y covers the whole batch. */
static grail_status add_patches(grail_compression *c, const observation *o, const execution *e,
                                grail_statistics *into, const void *y)
{
    grail_status status = GRAIL_OK;
    void *patches = NULL;
    const conv_shape shape = shape_of_conv(c, o, e);
    const int64_t width = shape.channels_in * o->layout.taps;
    const int64_t all = shape.samples * shape.out.height;
    int64_t step = PIECE_ELEMENTS / (width * shape.out.width);
    step = step < 1 ? 1 : step;
    step = step > all ? all : step;
    TRY(buffer_pool_take(
        c->network->pool,
        (size_t)(step * shape.out.width * width) * c->request->backend->element_size, &patches));
    for (int64_t begin = 0; begin < all; begin += step) {
        const int64_t end = begin + step < all ? begin + step : all;
        const input_rows rows = {
            .data = patches, .rows = (end - begin) * shape.out.width, .width = width};
        c->request->backend->patches(
            &shape, execution_value(e, observed_node(c, o)->inputs[0])->data, begin, end, patches);
        const void *target =
            y == NULL ? NULL : row_at(c, y, begin * shape.out.width, into->outputs);
        TRY(add_rows(c, o, into, &rows, target, &rows));
    }
out:
    buffer_pool_give(c->network->pool, patches);
    return status;
}

static bool is_patched(const grail_compression *c, const observation *o)
{
    return observed_node(c, o)->kind == NODE_CONV2D && o->layout.tap_rows == 1 &&
           c->request->plan.compensation.conv == CONV_FIT_KERNEL;
}

static input_rows rows_of(const matrix *m)
{
    return (input_rows){.data = m->data, .rows = m->rows, .width = m->width};
}

grail_status observation_add(grail_compression *c, int64_t batch, void *user)
{
    grail_status status = GRAIL_OK;
    const observation *o = user;
    const int value = observed_node(c, o)->inputs[0];
    grail_statistics *into = calibration_holds_out(c->request->samples, batch) ? o->held : o->fit;
    void *y = NULL;
    if (into->outputs > 0 && target_is_dense(c) && !target_by_tap(c, o)) {
        TRY(dense_target(c, o, &y));
    }
    if (is_patched(c, o)) {
        TRY(add_patches(c, o, c->network->current.execution, into, y));
    } else {
        const input_rows in = rows_of(execution_value(c->network->current.execution, value));
        const input_rows dense = rows_of(execution_value(c->network->dense.execution, value));
        TRY(add_rows(c, o, into, &in, y, target_by_tap(c, o) ? &dense : &in));
    }
out:
    buffer_pool_give(c->network->pool, y);
    return status;
}

grail_status observation_add_input(grail_compression *c, observation *o, const execution *e,
                                   int64_t batch)
{
    grail_statistics *into = calibration_holds_out(c->request->samples, batch) ? o->held : o->fit;
    if (is_patched(c, o)) {
        return add_patches(c, o, e, into, NULL);
    }
    const input_rows in = rows_of(execution_value(e, observed_node(c, o)->inputs[0]));
    return add_rows(c, o, into, &in, NULL, NULL);
}
