/* Copies of positions: of any values, one position's channels at a time. */
#include "backend/host/kernels.h"

#include "base/parallel.h"

#include <string.h>

/* One row of output positions per index: `index` counts samples x out.height. */
typedef struct position_copy {
    const position_shape *shape;
    size_t in_bytes, out_bytes; /* of one position */
    size_t pad_bytes;
    const unsigned char *x;
    unsigned char *y;
} position_copy;

static position_copy copy_of(const operation *o)
{
    const size_t size = element_size(o->m[0].type);
    return (position_copy){
        .shape = o->with.positions,
        .in_bytes = (size_t)o->m[0].columns * size,
        .out_bytes = (size_t)o->m[1].columns * size,
        .pad_bytes = (size_t)o->with.positions->pad * size,
        .x = o->m[0].memory,
        .y = o->m[1].memory,
    };
}

static const unsigned char *input_position(const position_copy *c, int64_t sample, int64_t row,
                                           int64_t column)
{
    const int64_t index = (sample * c->shape->in.height + row) * c->shape->in.width + column;
    return c->x + (size_t)index * c->in_bytes;
}

static void shortcut_rows(int64_t begin, int64_t end, void *context)
{
    const position_copy *c = context;
    const extent out = c->shape->out;
    const int64_t stride = c->shape->window.stride;
    for (int64_t index = begin; index < end; index++) {
        unsigned char *y = c->y + (size_t)(index * out.width) * c->out_bytes;
        const int64_t row = index % out.height * stride;
        for (int64_t column = 0; column < out.width; column++, y += c->out_bytes) {
            memset(y, 0, c->pad_bytes);
            memcpy(y + c->pad_bytes, input_position(c, index / out.height, row, column * stride),
                   c->in_bytes);
            memset(y + c->pad_bytes + c->in_bytes, 0, c->pad_bytes);
        }
    }
}

grail_status host_shortcut(backend *b, const operation *o)
{
    enum { GRAIN = 16 };
    position_copy copy = copy_of(o);
    (void)b;
    parallel_for(copy.shape->samples * copy.shape->out.height, GRAIN, shortcut_rows, &copy);
    return GRAIL_OK;
}

/* A row of a window is contiguous: position after position, each with all its channels. */
static void window_samples(int64_t begin, int64_t end, void *context)
{
    const position_copy *c = context;
    const window2d *w = &c->shape->window;
    const int64_t width = c->shape->in.width;
    const int64_t across = width < w->kernel_width ? 0 : (width - w->kernel_width) / w->stride + 1;
    const int64_t windows = c->shape->out.height * c->shape->out.width; /* of a sample */
    const size_t piece = (size_t)w->kernel_width * c->in_bytes;
    for (int64_t index = begin * windows; index < end * windows; index++) {
        unsigned char *y = c->y + (size_t)index * c->out_bytes;
        const int64_t top = index % windows / across * w->stride;
        const int64_t left = index % windows % across * w->stride;
        for (int64_t row = 0; row < w->kernel_height; row++) {
            memcpy(y + (size_t)row * piece, input_position(c, index / windows, top + row, left),
                   piece);
        }
    }
}

grail_status host_windows(backend *b, const operation *o)
{
    position_copy copy = copy_of(o);
    (void)b;
    parallel_for(copy.shape->samples, 1, window_samples, &copy);
    return GRAIL_OK;
}
