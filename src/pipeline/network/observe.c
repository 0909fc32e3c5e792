#include "pipeline/network/observe.h"

#include "pipeline/network/target.h"

/* Patches are made and added in pieces of about this many elements. */
enum { PIECE_ELEMENTS = 8 << 20 };

static const void *row_at(const backend *b, const void *base, int64_t row, int64_t width)
{
    return (const unsigned char *)base + (size_t)(row * width) * b->element_size;
}

/* Adds rows and computes their target, in pieces: the target has taps times as many columns as the
 * consumer has outputs. */
static grail_status add_rows_with_target(const observation *o, const execution *e,
                                         grail_statistics *into, const matrix *in,
                                         const matrix *source)
{
    grail_status status = GRAIL_OK;
    void *y = NULL;
    const backend *b = e->backend;
    const int64_t offset = o->unreduced * o->layout.taps;
    int64_t step = PIECE_ELEMENTS / into->outputs;
    step = step < 1 ? 1 : step;
    step = step > in->rows ? in->rows : step;
    TRY(buffer_pool_take(e->pool, (size_t)(step * into->outputs) * b->element_size, &y));
    for (int64_t begin = 0; begin < in->rows; begin += step) {
        const int64_t rows = begin + step < in->rows ? step : in->rows - begin;
        b->linear(rows, source->width, into->outputs, row_at(b, source->data, begin, source->width),
                  o->target_weight, NULL, y);
        TRY(statistics_accumulate(into, b, rows, row_at(b, in->data, 1, begin * in->width + offset),
                                  in->width, y, into->outputs));
    }
out:
    buffer_pool_give(e->pool, y);
    return status;
}

/* Adds rows to the statistics: the reduced columns of `in`, and the target. The target is y[rows,
 * outputs], or if that is NULL computed from the columns of `source`. */
static grail_status add_rows(const observation *o, const execution *e, grail_statistics *into,
                             const matrix *in, const void *y, const matrix *source)
{
    const int64_t offset = o->unreduced * o->layout.taps;
    if (into->outputs > 0 && y == NULL) {
        return add_rows_with_target(o, e, into, in, source);
    }
    return statistics_accumulate(into, e->backend, in->rows,
                                 row_at(e->backend, in->data, 1, offset), in->width, y,
                                 into->outputs);
}

static conv_shape shape_of_conv(const observation *o, const execution *e)
{
    const node *n = &e->graph->nodes[o->node];
    const graph_parameter *weight = &e->graph->parameters[n->weight];
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

/* Adds patches in pieces, since all together have kernel^2 times the size of the input. y covers
 * the entire batch. */
static grail_status add_patches(const observation *o, const execution *e, grail_statistics *into,
                                const matrix *in, const void *y)
{
    grail_status status = GRAIL_OK;
    void *patches = NULL;
    const backend *b = e->backend;
    const conv_shape shape = shape_of_conv(o, e);
    const int64_t width = shape.channels_in * o->layout.taps;
    const int64_t all = shape.samples * shape.out.height;
    int64_t step = PIECE_ELEMENTS / (width * shape.out.width);
    step = step < 1 ? 1 : step;
    step = step > all ? all : step;
    TRY(buffer_pool_take(e->pool, (size_t)(step * shape.out.width * width) * b->element_size,
                         &patches));
    for (int64_t begin = 0; begin < all; begin += step) {
        const int64_t end = begin + step < all ? begin + step : all;
        const matrix rows = {
            .data = patches, .rows = (end - begin) * shape.out.width, .width = width};
        b->patches(&shape, in->data, begin, end, patches);
        const void *target =
            y == NULL ? NULL : row_at(b, y, begin * shape.out.width, into->outputs);
        TRY(add_rows(o, e, into, &rows, target, &rows));
    }
out:
    buffer_pool_give(e->pool, patches);
    return status;
}

grail_status observation_add(calibration_network *network, int64_t batch, void *user)
{
    grail_status status = GRAIL_OK;
    const observation *o = user;
    const execution *e = network->current.execution;
    const int value = e->graph->nodes[o->node].inputs[0];
    const matrix *in = execution_value(e, value);
    grail_statistics *into =
        calibration_holds_out(network->request->samples, batch) ? o->held : o->fit;
    void *y = NULL;
    if (o->target == OBSERVES_DENSE_OUTPUT) {
        TRY(dense_target(network, o->node, &y));
    }
    if (o->of_patches) {
        TRY(add_patches(o, e, into, in, y));
    } else if (o->target == OBSERVES_DENSE_PRODUCT) {
        TRY(add_rows(o, e, into, in, y, execution_value(network->dense.execution, value)));
    } else {
        TRY(add_rows(o, e, into, in, y, in));
    }
out:
    buffer_pool_give(network->pool, y);
    return status;
}

grail_status observation_add_input(const observation *o, const execution *e, bool held_out)
{
    grail_statistics *into = held_out ? o->held : o->fit;
    const matrix *in = execution_value(e, e->graph->nodes[o->node].inputs[0]);
    return o->of_patches ? add_patches(o, e, into, in, NULL) : add_rows(o, e, into, in, NULL, NULL);
}
