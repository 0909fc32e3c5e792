/* Copies of positions of images. */
#include "backend/torch/kernels.h"
#include "graph/node.h"

/* Channels of every stride-th position of images, and of all positions of a shortcut. */
static torch_tensor taken(torch_frame *f, const position_shape *s, matrix x)
{
    const int64_t line = s->in.width * x.columns;
    return torch_view(f, x, 4, (int64_t[]){s->samples, s->out.height, s->out.width, x.columns},
                      (int64_t[]){s->in.height * line, s->window.height.stride * line,
                                  s->window.width.stride * x.columns, 1});
}

static torch_tensor made(torch_frame *f, const position_shape *s, matrix y)
{
    const int64_t line = s->out.width * y.columns;
    return torch_reshaped(
        f, torch_matrix(f, y), 4,
        (int64_t[]){s->samples, s->out.height, s->out.width, y.columns - 2 * s->pad},
        (int64_t[]){s->out.height * line, line, y.columns, 1}, s->pad);
}

KERNEL(shortcut)
{
    torch_zero(f, torch_matrix(f, o->m[1]));
    torch_copy(f, taken(f, o->with.positions, o->m[0]), made(f, o->with.positions, o->m[1]));
}

KERNEL(shortcut_gradient)
{
    torch_zero(f, torch_matrix(f, o->m[1]));
    torch_copy(f, made(f, o->with.positions, o->m[0]), taken(f, o->with.positions, o->m[1]));
}

/* Windows of every sample: `rows` rows of `across` windows, from row `first` on. */
static void copy_windows(torch_frame *f, const operation *o, int64_t in_row, int64_t first,
                         int64_t rows, int64_t across)
{
    const position_shape *s = o->with.positions;
    const window2d *w = &s->window;
    const matrix x = o->m[0];
    const int64_t width = o->m[1].columns;
    const int64_t line = s->in.width * x.columns;
    const int64_t piece = w->width.kernel * x.columns;
    const int64_t shape[] = {s->samples, rows, across, w->height.kernel, piece};
    torch_copy(f,
               torch_reshaped(f, torch_matrix(f, x), 5, shape,
                              (int64_t[]){s->in.height * line, w->height.stride * line,
                                          w->width.stride * x.columns, line, 1},
                              in_row * w->height.stride * line),
               torch_reshaped(f, torch_matrix(f, o->m[1]), 5, shape,
                              (int64_t[]){s->out.height * s->out.width * width, across * width,
                                          width, piece, 1},
                              first * width));
}

/* The output may have fewer windows of a sample than there are, then its last row of them ends
 * early. */
KERNEL(windows)
{
    const position_shape *s = o->with.positions;
    if (o->m[1].rows > 0 && o->m[1].columns > 0) {
        const int64_t across = window_positions(&s->window, s->in).width;
        const int64_t count = s->out.height * s->out.width;
        copy_windows(f, o, 0, 0, count / across, across);
        copy_windows(f, o, count / across, count / across * across, 1, count % across);
    }
}
