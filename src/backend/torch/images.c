/* Windows that move over images, and their gradients. What a window reads is laid out first, with
 * what surrounds the images where it reaches there, so that torch's operators get no padding: they
 * allow less of it, and make all outputs that there is room for. */
#include "backend/torch/kernels.h"

#include <math.h>

/* Rows of channels as images, channel last. */
typedef struct pictures {
    torch_tensor rows; /* [samples * height * width, channels] */
    int64_t samples, channels;
    extent size;
} pictures;

/* Positions from the first that a window reads to the last. */
static int64_t reach(int64_t out, const window_axis *a)
{
    return (out - 1) * a->stride + a->dilation * (a->kernel - 1) + 1;
}

static extent reached(const conv_shape *s)
{
    return (extent){reach(s->out.height, &s->window.height), reach(s->out.width, &s->window.width)};
}

/* Those of the positions of an input from the first on that a window reads. */
static extent kept(const conv_shape *s)
{
    const extent seen = reached(s);
    const int64_t height = smaller(seen.height - s->window.height.before, s->in.height);
    const int64_t width = smaller(seen.width - s->window.width.before, s->in.width);
    return (extent){height < 0 ? 0 : height, width < 0 ? 0 : width};
}

/* [samples, channels, height, width] of a part of the images that begins at `row` and `column`. */
static torch_tensor part(torch_frame *f, const pictures *p, int64_t row, int64_t column,
                         extent size)
{
    const int64_t c = p->channels;
    const int64_t width = p->size.width;
    return torch_reshaped(f, p->rows, 4, (int64_t[]){p->samples, c, size.height, size.width},
                          (int64_t[]){p->size.height * width * c, 1, width * c, c},
                          (row * width + column) * c);
}

static pictures inputs_of(torch_frame *f, const conv_shape *s, matrix x)
{
    return (pictures){torch_matrix(f, x), s->samples, x.columns, s->in};
}

static torch_tensor outputs_of(torch_frame *f, const conv_shape *s, matrix y)
{
    const pictures p = {torch_matrix(f, y), s->samples, y.columns, s->out};
    return part(f, &p, 0, 0, s->out);
}

/* Images of which the window reads all from the first position on; copied only where it reaches
 * around them. */
static pictures read_by(torch_frame *f, const conv_shape *s, matrix x, double around)
{
    const pictures own = inputs_of(f, s, x);
    const extent seen = reached(s);
    if (s->window.height.before == 0 && s->window.width.before == 0 &&
        seen.height <= s->in.height && seen.width <= s->in.width) {
        return own;
    }
    const int64_t rows = s->samples * seen.height * seen.width;
    const pictures wide = {torch_empty(f, x.type, rows, x.columns), s->samples, x.columns, seen};
    (void)torch_fill(f, wide.rows, around);
    torch_copy(f, part(f, &own, 0, 0, kept(s)),
               part(f, &wide, s->window.height.before, s->window.width.before, kept(s)));
    return wide;
}

static torch_tensor seen_by(torch_frame *f, const conv_shape *s, matrix x, double around)
{
    const pictures p = read_by(f, s, x, around);
    return part(f, &p, 0, 0, reached(s));
}

/* Gradients of what the window reads, as gradients of the images. */
static void give_back(torch_frame *f, const conv_shape *s, torch_tensor seen, matrix dx)
{
    const extent size = kept(s);
    const pictures own = inputs_of(f, s, dx);
    if (size.height == 0 || size.width == 0) {
        return;
    }
    const torch_tensor rows =
        torch_call(f, "aten::narrow", "", A_TENSOR(seen), AN_INTEGER(2),
                   AN_INTEGER(s->window.height.before), AN_INTEGER(size.height));
    const torch_tensor inside =
        torch_call(f, "aten::narrow", "", A_TENSOR(rows), AN_INTEGER(3),
                   AN_INTEGER(s->window.width.before), AN_INTEGER(size.width));
    torch_copy(f, inside, part(f, &own, 0, 0, size));
}

/* -- convolutions ------------------------------------------------------------------------------ */

/* A weight for `channels` of the input in each group. */
static torch_tensor kernels_of(torch_frame *f, const conv_shape *s, matrix weight, int64_t channels)
{
    const int64_t height = s->window.height.kernel;
    const int64_t width = s->window.width.kernel;
    return torch_operand(f, weight,
                         torch_view(f, weight, 4, (int64_t[]){weight.rows, channels, height, width},
                                    (int64_t[]){weight.columns, height * width, width, 1}));
}

/* The convolution, or transposed what it does to gradients. On a GPU cuDNN is called by its own
 * name, which is told not to round values to TF32; the other one does so by default. */
static torch_tensor convolved(torch_frame *f, const window2d *w, bool transposed, torch_tensor x,
                              torch_tensor weight, int64_t groups)
{
    const torch_argument none = INTEGERS(0, 0);
    const torch_argument stride = INTEGERS(w->height.stride, w->width.stride);
    const torch_argument dilation = INTEGERS(w->height.dilation, w->width.dilation);
    if (!torch_is_cuda(f->owner)) {
        return torch_call(f, "aten::convolution", "", A_TENSOR(x), A_TENSOR(weight), NOTHING,
                          stride, none, dilation, A_TRUTH(transposed), none, AN_INTEGER(groups));
    }
    return transposed
               ? torch_call(f, "aten::cudnn_convolution_transpose", "", A_TENSOR(x),
                            A_TENSOR(weight), none, none, stride, dilation, AN_INTEGER(groups),
                            A_TRUTH(false), A_TRUTH(false), A_TRUTH(false))
               : torch_call(f, "aten::cudnn_convolution", "", A_TENSOR(x), A_TENSOR(weight), none,
                            stride, dilation, AN_INTEGER(groups), A_TRUTH(false), A_TRUTH(false),
                            A_TRUTH(false));
}

/* sum + b, where there is b of each channel, or of each output. */
static torch_tensor with_bias(torch_frame *f, torch_tensor sum, matrix bias)
{
    const int64_t n = bias.columns;
    return matrix_exists(bias)
               ? torch_sum(f, sum,
                           torch_view(f, bias, 4, (int64_t[]){1, n, 1, 1}, (int64_t[]){n, 1, n, n}),
                           1.0)
               : sum;
}

static bool is_empty(matrix m)
{
    return m.rows == 0 || m.columns == 0;
}

/* The convolution with a weight of so many groups; 0 of no channels. */
static torch_tensor convolution_of(torch_frame *f, const conv_shape *s, matrix x, matrix weight,
                                   int64_t groups)
{
    if (x.columns == 0) {
        const pictures zeros = {torch_empty(f, x.type, weight.rows, 1), 1, weight.rows, {1, 1}};
        torch_zero(f, zeros.rows);
        return part(f, &zeros, 0, 0, zeros.size);
    }
    return convolved(f, &s->window, false, torch_operand(f, x, seen_by(f, s, x, 0.0)),
                     kernels_of(f, s, weight, x.columns / groups), groups);
}

static void put_limited(torch_frame *f, double ceiling, torch_tensor x, torch_tensor y)
{
    if (ceiling == 0.0) {
        torch_copy(f, x, y);
    } else if (isinf(ceiling)) {
        torch_copy(f, torch_unary(f, "aten::relu", x), y);
    } else {
        torch_limit(f, 0.0, ceiling, x, y);
    }
}

KERNEL(conv2d)
{
    const conv_shape *s = o->with.conv;
    const torch_tensor y = outputs_of(f, s, o->m[4]);
    if (is_empty(o->m[4])) {
        return;
    }
    torch_tensor sum =
        with_bias(f, convolution_of(f, s, o->m[0], o->m[1], conv_groups(s)), o->m[2]);
    if (matrix_exists(o->m[3])) {
        sum = torch_sum(f, sum, outputs_of(f, s, o->m[3]), 1.0);
    }
    put_limited(f, o->with.ceiling, sum, y);
}

KERNEL(depthwise)
{
    const conv_shape *s = o->with.conv;
    if (!is_empty(o->m[3])) {
        const torch_tensor sum = convolution_of(f, s, o->m[0], o->m[1], o->m[0].columns);
        put_limited(f, o->with.ceiling, with_bias(f, sum, o->m[2]), outputs_of(f, s, o->m[3]));
    }
}

/* dX from dY: overwritten, and zero where no window reads. */
static void go_back(torch_frame *f, const conv_shape *s, matrix dy, matrix weight, matrix dx,
                    int64_t groups)
{
    if (!matrix_exists(dx) || is_empty(dx)) {
        return;
    }
    torch_zero(f, torch_matrix(f, dx));
    if (!is_empty(dy)) {
        give_back(f, s,
                  convolved(f, &s->window, true, torch_operand(f, dy, outputs_of(f, s, dy)),
                            kernels_of(f, s, weight, dx.columns / groups), groups),
                  dx);
    }
}

/* P[samples * out positions, count * c]: what `count` taps of a row of the window read of `c`
 * channels. */
static torch_tensor patch_rows(torch_frame *f, const conv_shape *s, const pictures *p, int64_t row,
                               int64_t column, int64_t count, int64_t first, int64_t c)
{
    const window2d *w = &s->window;
    const int64_t all = p->channels;
    const int64_t line = p->size.width * all;
    const torch_tensor reads = torch_reshaped(
        f, p->rows, 5, (int64_t[]){s->samples, s->out.height, s->out.width, count, c},
        (int64_t[]){p->size.height * line, w->height.stride * line, w->width.stride * all,
                    w->width.dilation * all, 1},
        row * w->height.dilation * line + column * w->width.dilation * all + first);
    return torch_call(f, "aten::reshape", "", A_TENSOR(reads),
                      INTEGERS(s->samples * s->out.height * s->out.width, count * c));
}

/* dweight += dY^T P, one row of the window and one group after the other: torch's own gradient
 * would round to TF32, and all patches at once would be large. */
static void add_weight_gradient(torch_frame *f, const conv_shape *s, matrix x, matrix dy,
                                matrix dweight)
{
    const pictures p = read_by(f, s, x, 0.0);
    const torch_tensor all = torch_matrix(f, dweight);
    const int64_t across = s->window.width.kernel;
    const int64_t taps = s->window.height.kernel * across;
    const int64_t rows = dweight.rows / conv_groups(s);
    const int64_t columns = x.columns / conv_groups(s);
    const int64_t shape[] = {rows, across, columns};
    const int before = f->count;
    for (int64_t i = 0; i < s->window.height.kernel * conv_groups(s) && f->status == GRAIL_OK;
         i++) {
        const int64_t row = i % s->window.height.kernel;
        const int64_t group = i / s->window.height.kernel;
        const matrix own_dy = matrix_columns(dy, group * rows, rows);
        const torch_tensor left = torch_transposed(f, torch_matrix(f, own_dy));
        const torch_tensor right = patch_rows(f, s, &p, row, 0, across, group * columns, columns);
        const torch_tensor product = torch_product_of(f, own_dy, left, x, right);
        const torch_tensor own =
            torch_reshaped(f, all, 3, shape, (int64_t[]){dweight.columns, 1, taps},
                           group * rows * dweight.columns + row * across);
        const torch_tensor made =
            torch_reshaped(f, product, 3, shape, (int64_t[]){across * columns, columns, 1}, 0);
        torch_copy(f, torch_sum(f, own, made, 1.0), own);
        torch_forget(f, before);
    }
}

KERNEL(conv2d_gradient)
{
    const conv_shape *s = o->with.conv;
    const matrix dy = o->m[2];
    go_back(f, s, dy, o->m[1], o->m[3], conv_groups(s));
    if (matrix_exists(o->m[4]) && !is_empty(dy) && !is_empty(o->m[4])) {
        add_weight_gradient(f, s, o->m[0], dy, o->m[4]);
    }
    if (matrix_exists(o->m[5])) {
        const torch_tensor own = torch_matrix(f, o->m[5]);
        torch_copy(f, torch_sum(f, torch_sums(f, torch_matrix(f, dy), MAYBE_INTEGERS(0)), own, 1.0),
                   own);
    }
}

/* dweight += the sum over positions of dY times what each tap reads. */
static void add_kernel_gradient(torch_frame *f, const conv_shape *s, matrix x, matrix dy,
                                matrix dweight)
{
    const pictures p = read_by(f, s, x, 0.0);
    const torch_tensor all = torch_matrix(f, dweight);
    const torch_tensor given = torch_wide(f, dy);
    const int64_t across = s->window.width.kernel;
    const int before = f->count;
    for (int64_t tap = 0; tap < dweight.columns && f->status == GRAIL_OK; tap++) {
        const torch_tensor reads =
            patch_rows(f, s, &p, tap / across, tap % across, 1, 0, x.columns);
        const torch_tensor sum = torch_sums(f, torch_times(f, given, reads), MAYBE_INTEGERS(0));
        const torch_tensor own = torch_reshaped(f, all, 2, (int64_t[]){1, dweight.rows},
                                                (int64_t[]){1, dweight.columns}, tap);
        torch_copy(f, torch_sum(f, sum, own, 1.0), own);
        torch_forget(f, before);
    }
}

KERNEL(depthwise_gradient)
{
    const conv_shape *s = o->with.conv;
    go_back(f, s, o->m[2], o->m[1], o->m[3], o->m[0].columns);
    if (matrix_exists(o->m[4]) && !is_empty(o->m[2])) {
        add_kernel_gradient(f, s, o->m[0], o->m[2], o->m[4]);
    }
}

/* -- largest elements -------------------------------------------------------------------------- */

/* The largest elements of windows on what they read, and in found[1] where they are there. */
static void find_largest(torch_frame *f, const window2d *w, torch_tensor seen,
                         torch_tensor found[2])
{
    (void)torch_call_many(f, "aten::max_pool2d_with_indices", "", 2, found, A_TENSOR(seen),
                          INTEGERS(w->height.kernel, w->width.kernel),
                          INTEGERS(w->height.stride, w->width.stride), INTEGERS(0, 0),
                          INTEGERS(w->height.dilation, w->width.dilation), A_TRUTH(false));
}

KERNEL(max_pool)
{
    const conv_shape *s = o->with.conv;
    torch_tensor found[2] = {NULL, NULL};
    if (!is_empty(o->m[1])) {
        find_largest(f, &s->window, seen_by(f, s, o->m[0], -HUGE_VAL), found);
        torch_copy(f, found[0], outputs_of(f, s, o->m[1]));
    }
}

KERNEL(max_pool_gradient)
{
    const conv_shape *s = o->with.conv;
    const window2d *w = &s->window;
    torch_tensor found[2] = {NULL, NULL};
    torch_zero(f, torch_matrix(f, o->m[2]));
    if (!is_empty(o->m[1])) {
        const torch_tensor seen = seen_by(f, s, o->m[0], -HUGE_VAL);
        find_largest(f, w, seen, found);
        const torch_tensor dy = outputs_of(f, s, o->m[1]);
        give_back(f, s,
                  torch_call(f, "aten::max_pool2d_with_indices_backward", "", A_TENSOR(dy),
                             A_TENSOR(seen), INTEGERS(w->height.kernel, w->width.kernel),
                             INTEGERS(w->height.stride, w->width.stride), INTEGERS(0, 0),
                             INTEGERS(w->height.dilation, w->width.dilation), A_TRUTH(false),
                             A_TENSOR(found[1])),
                  o->m[2]);
    }
}

/* -- means ------------------------------------------------------------------------------------- */

/* Means over all taps of windows, of which those outside are zero. */
static torch_tensor means_of(torch_frame *f, const window2d *w, torch_tensor seen)
{
    return torch_call(f, "aten::avg_pool2d", "", A_TENSOR(seen),
                      INTEGERS(w->height.kernel, w->width.kernel),
                      INTEGERS(w->height.stride, w->width.stride), INTEGERS(0, 0), A_TRUTH(false),
                      A_TRUTH(true), NOTHING);
}

/* m divided by the share of each window's taps that count, which is the mean of ones there. */
static torch_tensor by_counted(torch_frame *f, const operation *o, grail_dtype type, torch_tensor m)
{
    const conv_shape *s = o->with.conv;
    const window_axis *h = &s->window.height;
    const window_axis *w = &s->window.width;
    const bool padded = o->with.counts_padding;
    const extent seen = reached(s);
    const pictures ones = {torch_empty(f, type, seen.height * seen.width, 1), 1, 1, seen};
    const extent whole = {smaller(seen.height, s->in.height + h->before + h->behind),
                          smaller(seen.width, s->in.width + w->before + w->behind)};
    torch_zero(f, ones.rows);
    (void)torch_fill(
        f, padded ? part(f, &ones, 0, 0, whole) : part(f, &ones, h->before, w->before, kept(s)),
        1.0);
    const torch_tensor share = means_of(f, &s->window, part(f, &ones, 0, 0, seen));
    const torch_tensor least = torch_number(f, 0.5 / (double)window_taps(&s->window));
    return torch_call(
        f, "aten::div", "Tensor", A_TENSOR(m),
        A_TENSOR(torch_call(f, "aten::maximum", "", A_TENSOR(share), A_TENSOR(least))));
}

KERNEL(average_pool)
{
    const conv_shape *s = o->with.conv;
    if (!is_empty(o->m[1])) {
        const torch_tensor means = means_of(f, &s->window, seen_by(f, s, o->m[0], 0.0));
        torch_copy(f, by_counted(f, o, o->m[0].type, means), outputs_of(f, s, o->m[1]));
    }
}

KERNEL(average_pool_gradient)
{
    const conv_shape *s = o->with.conv;
    const window2d *w = &s->window;
    const matrix dx = o->m[1];
    torch_zero(f, torch_matrix(f, dx));
    if (!is_empty(o->m[0])) {
        const torch_tensor dy = by_counted(f, o, dx.type, outputs_of(f, s, o->m[0]));
        const torch_tensor seen = seen_by(f, s, dx, 0.0); /* whose shape matters */
        give_back(f, s,
                  torch_call(f, "aten::avg_pool2d_backward", "", A_TENSOR(dy), A_TENSOR(seen),
                             INTEGERS(w->height.kernel, w->width.kernel),
                             INTEGERS(w->height.stride, w->width.stride), INTEGERS(0, 0),
                             A_TRUTH(false), A_TRUTH(true), NOTHING),
                  dx);
    }
}

/* -- patches ----------------------------------------------------------------------------------- */

/* Patches of `count` output rows from `first` on, of each of the samples of s. */
static void lay_out(torch_frame *f, const conv_shape *s, int64_t first, int64_t count, matrix x,
                    matrix p)
{
    const window2d *w = &s->window;
    const int64_t c = x.columns;
    const int64_t taps = window_taps(w);
    const pictures from = read_by(f, s, x, 0.0);
    const int64_t line = from.size.width * c;
    const int64_t shape[] = {s->samples, count, s->out.width, c, w->height.kernel, w->width.kernel};
    torch_copy(f,
               torch_reshaped(f, from.rows, 6, shape,
                              (int64_t[]){from.size.height * line, w->height.stride * line,
                                          w->width.stride * c, 1, w->height.dilation * line,
                                          w->width.dilation * c},
                              first * w->height.stride * line),
               torch_view(f, p, 6, shape,
                          (int64_t[]){count * s->out.width * p.columns, s->out.width * p.columns,
                                      p.columns, taps, w->width.kernel, 1}));
}

/* At most three pieces: the end of a sample, whole samples, and the beginning of one. */
KERNEL(patches)
{
    const int64_t height = o->with.conv->out.height;
    const int64_t end = is_empty(o->m[1]) ? o->with.begin : o->with.end;
    const int64_t positions = o->with.conv->in.height * o->with.conv->in.width;
    for (int64_t row = o->with.begin, rows = 0; row < end; row += rows) {
        conv_shape s = *o->with.conv;
        const int64_t first = row % height;
        const bool whole = first == 0 && end - row >= height;
        s.samples = whole ? (end - row) / height : 1;
        rows = whole ? s.samples * height : smaller(height - first, end - row);
        lay_out(f, &s, first, whole ? height : rows,
                matrix_rows(o->m[0], row / height * positions, s.samples * positions),
                matrix_rows(o->m[1], (row - o->with.begin) * s.out.width, rows * s.out.width));
    }
}

KERNEL(put_patches)
{
    const conv_shape *s = o->with.conv;
    const window2d *w = &s->window;
    const matrix p = o->m[0];
    const extent seen = reached(s);
    const int64_t positions = s->out.height * s->out.width;
    torch_zero(f, torch_matrix(f, o->m[1]));
    if (!is_empty(p) && !is_empty(o->m[1])) {
        const torch_tensor patches =
            torch_view(f, p, 3, (int64_t[]){s->samples, p.columns, positions},
                       (int64_t[]){positions * p.columns, 1, p.columns});
        give_back(f, s,
                  torch_call(f, "aten::col2im", "", A_TENSOR(patches),
                             INTEGERS(seen.height, seen.width),
                             INTEGERS(w->height.kernel, w->width.kernel),
                             INTEGERS(w->height.dilation, w->width.dilation), INTEGERS(0, 0),
                             INTEGERS(w->height.stride, w->width.stride)),
                  o->m[1]);
    }
}
