/* Images in the cpu backend: convolution and pooling, patches, the mean over positions.
 */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/taps.h"
#include "backend/cpu/winograd.h"
#include "base/clones.h"
#include "base/parallel.h"

#include <string.h>

static bool leaves_input(const window_axis *a)
{
    const int64_t between = a->dilation * (a->kernel - 1);
    return a->before > between || a->behind > between;
}

/* Whether some window reads nothing but padding. oneDNN 2.6.3 then forgets to accumulate. */
static bool reads_only_padding(const window2d *w)
{
    return leaves_input(&w->height) || leaves_input(&w->width);
}

static int64_t row_of_weight(const conv_shape *s)
{
    return s->channels_in * window_taps(&s->window);
}

grail_status cpu_over_patches(const operation *o, patches_use use)
{
    enum { PATCHES = 1 << 21 };
    grail_status status = GRAIL_OK;
    const conv_shape *s = o->with.conv;
    const int64_t width = s->out.width;
    const int64_t rows = s->samples * s->out.height;
    const int64_t most = PATCHES / (width * row_of_weight(s));
    const int64_t step = most < 1 ? 1 : smaller(most, rows);
    float *memory = NULL;
    TRY(memory_new_unset(&memory, (size_t)(step * width * row_of_weight(s)), sizeof memory[0]));
    for (int64_t row = 0; row < rows; row += step) {
        const int64_t end = smaller(row + step, rows);
        const matrix patches =
            host_matrix(GRAIL_DTYPE_F32, memory, (end - row) * width, row_of_weight(s));
        TRY(cpu_patches(
            &(operation){.m = {o->m[0], patches}, .with = {.conv = s, .begin = row, .end = end}}));
        TRY(use(o, row * width, patches));
    }
out:
    memory_free(memory);
    return status;
}

/* oneDNN reads the entire weight for every image. Where that is much for few positions, a product
 * of the patches of many images at once is faster: 512 channels of 4 x 4 positions ran at 115
 * GFLOP/s in oneDNN and at 153 here. In all other shapes that were tried oneDNN was faster, 1 x 1
 * kernels and patch embeddings included. */
static bool prefers_product(const conv_shape *s)
{
    enum { MOST_POSITIONS = 16, LEAST_WEIGHT = 1 << 21 };
    return conv_groups(s) == 1 && s->out.height * s->out.width <= MOST_POSITIONS &&
           s->channels_out * row_of_weight(s) >= LEAST_WEIGHT;
}

/* How a precision convolves. */
typedef struct conv_products {
    bool by_patches; /* where that is faster; in bf16 the weight would be rounded for every piece */
    grail_status (*convolve)(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, double ceiling, float *y);
} conv_products;

/* Y = patches(X) W^T + bias */
static grail_status multiply_patches(const operation *o, int64_t first, matrix patches)
{
    const matrix made = matrix_rows(o->m[4], first, patches.rows);
    return cpu_linear(&(operation){.m = {patches, o->m[1], o->m[2], made}});
}

static grail_status convolve_as_asked(const conv_products *by, const operation *o, bool accumulate,
                                      double ceiling, matrix y)
{
    return by->convolve(o->with.conv, o->m[0].memory, o->m[1].memory, o->m[2].memory, accumulate,
                        ceiling, y.memory);
}

enum { LIMITED = 1 << 15 }; /* elements that one thread takes at once */

static void limit_values(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    float *y = o->m[4].memory;
    cpu_limit(end - begin, (float)o->with.ceiling, y + begin);
}

/* What follows the convolution in separate passes. The residual may lie in Y, so it is added to a
 * product in a buffer of its own. */
static grail_status convolve_apart(const conv_products *by, const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix residual = o->m[3];
    const matrix y = o->m[4];
    matrix product = y;
    float *owned = NULL;
    if (residual.memory != NULL) {
        TRY(memory_new_unset(&owned, (size_t)matrix_count(y), sizeof owned[0]));
        product = host_matrix(GRAIL_DTYPE_F32, owned, y.rows, y.columns);
    }
    if (by->by_patches && prefers_product(o->with.conv)) {
        const operation into = {.m = {o->m[0], o->m[1], o->m[2], no_matrix, product},
                                .with.conv = o->with.conv};
        TRY(cpu_over_patches(&into, multiply_patches));
    } else {
        TRY(convolve_as_asked(by, o, false, false, product));
    }
    if (residual.memory != NULL) {
        TRY(cpu_add(&(operation){.m = {product, residual, y}}));
    }
    if (o->with.ceiling != 0.0) {
        parallel_for(matrix_count(y), LIMITED, limit_values, (void *)(uintptr_t)o);
    }
out:
    memory_free(owned);
    return status;
}

static grail_status convolve(const conv_products *by, const operation *o)
{
    const conv_shape *s = o->with.conv;
    const void *residual = o->m[3].memory;
    const matrix y = o->m[4];
    if (matrix_count(y) == 0) {
        return GRAIL_OK;
    }
    if ((by->by_patches && prefers_product(s)) ||
        (residual != NULL && reads_only_padding(&s->window))) {
        return convolve_apart(by, o);
    }
    if (residual != NULL && residual != y.memory) {
        memcpy(y.memory, residual, (size_t)matrix_count(y) * sizeof(float));
    }
    return convolve_as_asked(by, o, residual != NULL, o->with.ceiling, y);
}

static grail_status convolve_f32(const conv_shape *s, const float *x, const float *weight,
                                 const float *bias, bool accumulate, double ceiling, float *y)
{
    return winograd_suits(s) ? winograd_convolve(s, x, weight, bias, accumulate, ceiling, y)
                             : onednn_convolve(s, x, weight, bias, accumulate, ceiling, y);
}

grail_status cpu_conv2d(const operation *o)
{
    static const conv_products by = {true, convolve_f32};
    return convolve(&by, o);
}

grail_status cpu_bf16_conv2d(const operation *o)
{
    static const conv_products by = {false, cpu_bf16_convolve};
    return convolve(&by, o);
}

grail_status cpu_max_pool(const operation *o)
{
    return matrix_count(o->m[1]) == 0
               ? GRAIL_OK
               : onednn_maximum(o->with.conv, o->m[0].memory, o->m[1].memory);
}

/* Taps of one output position that are looked up at once: pointers to their channels. */
enum { TAPS = 64 };

/* out[c * stride + k] = tap k's channel c, 0 where the tap lies outside. */
CPU_CLONES static void interleave(int64_t channels, int64_t count, const float *const tap[],
                                  int64_t stride, float *out)
{
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t k = 0; k < count; k++) {
            out[c * stride + k] = tap[k] == NULL ? 0.0F : tap[k][c];
        }
    }
}

/* The channels of the input at tap `k` of an output position, NULL outside. */
static const float *find_tap(const conv_shape *s, const float *sample, int64_t row, int64_t column,
                             int64_t k)
{
    const int64_t position = tap_position(s, row, column, k);
    return position < 0 ? NULL : sample + position * s->channels_in;
}

/* Rows of output positions, counted from the first that is made. */
static void patch_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const conv_shape *s = o->with.conv;
    const int64_t taps = window_taps(&s->window);
    const float *tap[TAPS];
    for (int64_t index = begin * s->out.width; index < end * s->out.width; index++) {
        const int64_t row = o->with.begin + index / s->out.width;
        const float *sample = host_row(o->m[0], row / s->out.height * s->in.height * s->in.width);
        float *out = host_row(o->m[1], index);
        for (int64_t k0 = 0; k0 < taps; k0 += TAPS) {
            const int64_t count = smaller(taps - k0, TAPS);
            for (int64_t k = 0; k < count; k++) {
                tap[k] = find_tap(s, sample, row % s->out.height, index % s->out.width, k0 + k);
            }
            interleave(s->channels_in, count, tap, taps, out + k0);
        }
    }
}

grail_status cpu_patches(const operation *o)
{
    const conv_shape *s = o->with.conv;
    parallel_for(o->with.end - o->with.begin, host_rows_grain(s->out.width * row_of_weight(s)),
                 patch_rows, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* x[c] += p[c * stride] */
CPU_CLONES static void add_tap(int64_t channels, int64_t stride, const float *p, float *x)
{
    for (int64_t c = 0; c < channels; c++) {
        x[c] += p[c * stride];
    }
}

/* Patches overlap, so a sample is one thread's. */
static void put_samples(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const conv_shape *s = o->with.conv;
    const int64_t c = s->channels_in;
    const int64_t taps = window_taps(&s->window);
    const int64_t positions = s->out.height * s->out.width;
    for (int64_t n = begin; n < end; n++) {
        float *x = host_row(o->m[1], n * s->in.height * s->in.width);
        memset(x, 0, (size_t)(s->in.height * s->in.width * c) * sizeof x[0]);
        for (int64_t i = 0; i < positions * taps; i++) {
            const int64_t at = i / taps;
            const int64_t to = tap_position(s, at / s->out.width, at % s->out.width, i % taps);
            const float *p = host_row(o->m[0], n * positions + at);
            if (to >= 0) {
                add_tap(c, taps, p + i % taps, x + to * c);
            }
        }
    }
}

grail_status cpu_put_patches(const operation *o)
{
    parallel_for(o->with.conv->samples, 1, put_samples, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* -- means over windows: oneDNN divides by the whole window where its last ones end in the padding
 * - */

/* The positions of an axis that count in the mean of window `out`. */
static int64_t counted(const window_axis *a, int64_t in, bool padded, int64_t out)
{
    const int64_t first = out * a->stride - a->before;
    const int64_t begin = padded || first > 0 ? first : 0;
    const int64_t end = smaller(first + a->kernel, padded ? in + a->behind : in);
    return end - begin;
}

/* What a position inside a window counts in its mean. */
static float share_of_tap(const operation *o, int64_t row, int64_t column)
{
    const conv_shape *s = o->with.conv;
    const bool padded = o->with.counts_padding;
    return 1.0F / (float)(counted(&s->window.height, s->in.height, padded, row) *
                          counted(&s->window.width, s->in.width, padded, column));
}

CPU_CLONES static void add_scaled(int64_t count, float factor, const float *x, float *sums)
{
    for (int64_t c = 0; c < count; c++) {
        sums[c] += factor * x[c];
    }
}

/* Samples: y += share x of each tap, or the other way round. Windows overlap on the way back, so a
 * sample is one thread's. */
static void average_samples(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const conv_shape *s = o->with.conv;
    const bool back = o->slot == SLOT_average_pool_gradient;
    const matrix from = o->m[0];
    const matrix to = o->m[1];
    const int64_t inputs = s->in.height * s->in.width;
    const int64_t outputs = s->out.height * s->out.width;
    const int64_t made = back ? inputs : outputs;
    memset(host_row(to, begin * made), 0,
           (size_t)((end - begin) * made * to.columns) * sizeof(float));
    for (int64_t i = begin * outputs; i < end * outputs; i++) {
        const int64_t row = i % outputs / s->out.width;
        const float share = share_of_tap(o, row, i % s->out.width);
        for (int64_t k = 0; k < window_taps(&s->window); k++) {
            const int64_t at = tap_position(s, row, i % s->out.width, k);
            const int64_t in = i / outputs * inputs + at;
            if (at >= 0) {
                add_scaled(to.columns, share, host_row(from, back ? i : in),
                           host_row(to, back ? in : i));
            }
        }
    }
}

grail_status cpu_average_pool(const operation *o)
{
    parallel_for(o->with.conv->samples, 1, average_samples, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

grail_status cpu_average_pool_gradient(const operation *o)
{
    parallel_for(o->with.conv->samples, 1, average_samples, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* sum[count] = sums over rows that lie `width` apart. */
CPU_CLONES static void sum_rows(int64_t rows, int64_t count, int64_t width, const float *x,
                                double *sum)
{
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < count; c++) {
            sum[c] += (double)x[r * width + c];
        }
    }
}

static void mean_samples(int64_t begin, int64_t end, void *context)
{
    enum { COLUMNS = 256 };
    const operation *o = context;
    const matrix y = o->m[1];
    const int64_t positions = o->m[0].rows / y.rows;
    double sum[COLUMNS];
    for (int64_t sample = begin; sample < end; sample++) {
        const float *x = host_row(o->m[0], sample * positions);
        float *mean = host_row(y, sample);
        for (int64_t c0 = 0; c0 < y.columns; c0 += COLUMNS) {
            const int64_t count = smaller(y.columns - c0, COLUMNS);
            sum_rows(positions, count, y.columns, x + c0, sum);
            for (int64_t c = 0; c < count; c++) {
                mean[c0 + c] = (float)(sum[c] / (double)positions);
            }
        }
    }
}

grail_status cpu_mean_positions(const operation *o)
{
    parallel_for(o->m[1].rows, 1, mean_samples, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* -- gradients of convolutions and pooling ----------------------------------------------------- */

/* dbias += sums over the positions, in f64 */
static grail_status add_bias_gradient(matrix dy, float *dbias)
{
    grail_status status = GRAIL_OK;
    double *sum = NULL;
    TRY(memory_new(&sum, (size_t)dy.columns, sizeof sum[0]));
    TRY(cpu_column_sums(&(operation){.m = {dy, no_matrix, {.memory = sum}}}));
    for (int64_t c = 0; c < dy.columns; c++) {
        dbias[c] += (float)sum[c];
    }
out:
    memory_free(sum);
    return status;
}

/* Where 1 x 1 windows leave positions out, oneDNN (2.6.3 as the newest) copies the positions they
 * read and, with fewer channels than a vector has elements, writes behind the copy
 * (uxlfoundation/oneDNN issue 6035): memory is overwritten, or a run never ends. */
static bool overruns_in_onednn(const window2d *w)
{
    return window_taps(w) == 1 && (w->height.stride > 1 || w->width.stride > 1);
}

/* dweight += dY^T patches(X), of each group; patches are those of one tap, so that groups convolve
 * them as they lie. */
static grail_status add_by_patches(const operation *o, int64_t first, matrix patches)
{
    const matrix dy = matrix_rows(o->m[2], first, patches.rows);
    if (conv_groups(o->with.conv) > 1) {
        conv_shape point = *o->with.conv;
        point.samples = 1;
        point.in = point.out = (extent){.height = patches.rows, .width = 1};
        point.window = (window2d)WINDOW2D(1, 1, 1, 0, 1);
        return onednn_add_weight_gradient(&point, patches.memory, dy.memory, o->m[4].memory);
    }
    return cpu_product(
        &(operation){.m = {dy, patches, o->m[4]}, .with = {.transpose_a = true, .beta = 1.0}});
}

/* oneDNN was faster than products with patches for 3 x 3 kernels of 64 to 512 channels, even where
 * the convolution itself is a product: 512 channels of 4 x 4 positions took 40 ms here and 66 as
 * products (64 images, 2 threads). */
grail_status cpu_conv2d_gradient(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const matrix x = o->m[0];
    const matrix dy = o->m[2];
    const matrix dweight = o->m[4];
    if (s->samples == 0) {
        return GRAIL_OK;
    }
    if (o->m[3].memory != NULL) {
        CHECK(winograd_suits_gradient(s)
                  ? winograd_input_gradient(s, o->m[1].memory, dy.memory, o->m[3].memory)
                  : onednn_input_gradient(s, o->m[1].memory, dy.memory, o->m[3].memory));
    }
    if (dweight.memory != NULL) {
        CHECK(overruns_in_onednn(&s->window)
                  ? cpu_over_patches(o, add_by_patches)
                  : onednn_add_weight_gradient(s, x.memory, dy.memory, dweight.memory));
    }
    if (o->m[5].memory != NULL) {
        CHECK(add_bias_gradient(dy, o->m[5].memory));
    }
    return GRAIL_OK;
}

/* Channels whose largest elements are looked for at once. */
enum { CHANNELS = 64 };

static void take_first(int64_t count, const float *x, int32_t position, float *largest, int32_t *at)
{
    for (int64_t c = 0; c < count; c++) {
        largest[c] = x[c];
        at[c] = position;
    }
}

/* Where x exceeds the largest so far, it takes its place. */
CPU_CLONES static void keep_larger(int64_t count, const float *x, int32_t position, float *largest,
                                   int32_t *at)
{
    for (int64_t c = 0; c < count; c++) {
        const bool exceeds = x[c] > largest[c];
        largest[c] = exceeds ? x[c] : largest[c];
        at[c] = exceeds ? position : at[c];
    }
}

/* dx[first largest of the window] += dy; x and dx are a sample's, from the first of the channels.
 */
static void pass_to_largest(const conv_shape *s, int64_t row, int64_t column, int64_t count,
                            const float *x, const float *dy, float *dx)
{
    int32_t at[CHANNELS]; /* where the largest is; none where the window reads padding alone */
    float largest[CHANNELS];
    bool found = false;
    for (int64_t k = 0; k < window_taps(&s->window); k++) {
        const int64_t position = tap_position(s, row, column, k);
        if (position >= 0 && found) {
            keep_larger(count, x + position * s->channels_in, (int32_t)position, largest, at);
        } else if (position >= 0) {
            take_first(count, x + position * s->channels_in, (int32_t)position, largest, at);
            found = true;
        }
    }
    for (int64_t c = 0; found && c < count; c++) {
        dx[at[c] * s->channels_in + c] += dy[c];
    }
}

/* Windows of one sample may overlap: it is one thread's. */
static void pool_samples(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const conv_shape *s = o->with.conv;
    const int64_t channels = s->channels_in;
    const int64_t inputs = s->in.height * s->in.width;
    const int64_t positions = s->out.height * s->out.width;
    memset(host_row(o->m[2], begin * inputs), 0,
           (size_t)((end - begin) * inputs * channels) * sizeof(float));
    for (int64_t index = begin * positions; index < end * positions; index++) {
        const int64_t first = index / positions * inputs;
        const int64_t row = index % positions / s->out.width;
        for (int64_t c = 0; c < channels; c += CHANNELS) {
            pass_to_largest(s, row, index % s->out.width, smaller(channels - c, CHANNELS),
                            host_element(o->m[0], first, c), host_element(o->m[1], index, c),
                            host_element(o->m[2], first, c));
        }
    }
}

grail_status cpu_max_pool_gradient(const operation *o)
{
    parallel_for(o->with.conv->samples, 1, pool_samples, (void *)(uintptr_t)o);
    return GRAIL_OK;
}
