/* Copies of positions: of any values, one position's channels at a time. */
#include "backend/host/host.h"

#include "base/parallel.h"
#include "graph/node.h"

#include <string.h>

/* One row of output positions per index: `index` counts samples x out.height. */
typedef struct position_copy {
    const position_shape *shape;
    size_t in_bytes, out_bytes; /* of one position */
    size_t pad_bytes;
    const unsigned char *read;
    unsigned char *made;
} position_copy;

/* Describes a copy from X to Y, or back. */
static position_copy copy_of(const position_shape *shape, matrix x, matrix y)
{
    const size_t size = element_size(x.type);
    return (position_copy){
        .shape = shape,
        .in_bytes = (size_t)x.columns * size,
        .out_bytes = (size_t)y.columns * size,
        .pad_bytes = (size_t)shape->pad * size,
        .read = x.memory,
        .made = y.memory,
    };
}

static const unsigned char *input_position(const position_copy *c, int64_t sample, int64_t row,
                                           int64_t column)
{
    const int64_t index = (sample * c->shape->in.height + row) * c->shape->in.width + column;
    return c->read + (size_t)index * c->in_bytes;
}

static void shortcut_rows(int64_t begin, int64_t end, void *context)
{
    const position_copy *c = context;
    const extent out = c->shape->out;
    const int64_t down = c->shape->window.height.stride;
    const int64_t across = c->shape->window.width.stride;
    for (int64_t index = begin; index < end; index++) {
        unsigned char *y = c->made + (size_t)(index * out.width) * c->out_bytes;
        const int64_t row = index % out.height * down;
        for (int64_t column = 0; column < out.width; column++, y += c->out_bytes) {
            memset(y, 0, c->pad_bytes);
            memcpy(y + c->pad_bytes, input_position(c, index / out.height, row, column * across),
                   c->in_bytes);
            memset(y + c->pad_bytes + c->in_bytes, 0, c->pad_bytes);
        }
    }
}

grail_status host_shortcut(const operation *o)
{
    enum { GRAIN = 16 };
    position_copy copy = copy_of(o->with.positions, o->m[0], o->m[1]);
    parallel_for(copy.shape->samples * copy.shape->out.height, GRAIN, shortcut_rows, &copy);
    return GRAIL_OK;
}

/* One row of input positions per index; those between the steps get zeros. */
static void shortcut_gradient_rows(int64_t begin, int64_t end, void *context)
{
    const position_copy *c = context;
    const extent in = c->shape->in;
    const extent out = c->shape->out;
    const int64_t down = c->shape->window.height.stride;
    const int64_t across = c->shape->window.width.stride;
    for (int64_t index = begin; index < end; index++) {
        unsigned char *x = c->made + (size_t)(index * in.width) * c->in_bytes;
        const int64_t row = index % in.height;
        const int64_t from = (index / in.height * out.height + row / down) * out.width;
        memset(x, 0, (size_t)in.width * c->in_bytes);
        for (int64_t k = 0; row % down == 0 && row / down < out.height && k < out.width; k++) {
            memcpy(x + (size_t)(k * across) * c->in_bytes,
                   c->read + (size_t)(from + k) * c->out_bytes + c->pad_bytes, c->in_bytes);
        }
    }
}

grail_status host_shortcut_gradient(const operation *o)
{
    enum { GRAIN = 16 };
    position_copy copy = copy_of(o->with.positions, o->m[1], o->m[0]);
    copy.read = o->m[0].memory;
    copy.made = o->m[1].memory;
    parallel_for(copy.shape->samples * copy.shape->in.height, GRAIN, shortcut_gradient_rows, &copy);
    return GRAIL_OK;
}

/* A row of a window is contiguous: position after position, each with all its channels. */
static void window_samples(int64_t begin, int64_t end, void *context)
{
    const position_copy *c = context;
    const window2d *w = &c->shape->window;
    const int64_t across = window_positions(w, c->shape->in).width;
    const int64_t windows = c->shape->out.height * c->shape->out.width; /* of a sample */
    const size_t piece = (size_t)w->width.kernel * c->in_bytes;
    for (int64_t index = begin * windows; index < end * windows; index++) {
        unsigned char *y = c->made + (size_t)index * c->out_bytes;
        const int64_t top = index % windows / across * w->height.stride;
        const int64_t left = index % windows % across * w->width.stride;
        for (int64_t row = 0; row < w->height.kernel; row++) {
            memcpy(y + (size_t)row * piece, input_position(c, index / windows, top + row, left),
                   piece);
        }
    }
}

grail_status host_windows(const operation *o)
{
    position_copy copy = copy_of(o->with.positions, o->m[0], o->m[1]);
    parallel_for(copy.shape->samples, 1, window_samples, &copy);
    return GRAIL_OK;
}
