/* Gradients of images in the cpu backend: convolution and pooling. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/taps.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <string.h>

/* dbias += sums over the positions, in f64 */
static grail_status add_bias_gradient(matrix dy, float *dbias)
{
    grail_status status = GRAIL_OK;
    double *sum = NULL;
    TRY(memory_new(&sum, (size_t)dy.columns, sizeof sum[0]));
    TRY(cpu_column_sums(&(operation){.m = {dy, {.memory = sum}}}));
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
    return w->kernel_height == 1 && w->kernel_width == 1 && w->stride > 1;
}

/* dweight += dY^T patches(X) */
static grail_status add_by_patches(const operation *o, int64_t first, matrix patches)
{
    const matrix dy = matrix_rows(o->m[2], first, patches.rows);
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
        CHECK(onednn_input_gradient(s, o->m[1].memory, dy.memory, o->m[3].memory));
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
    int32_t at[CHANNELS];
    /* Writes where the first largest elements of a window are, for `count` channels that begin at
     * x; false of a window that reads nothing but padding. */
    float largest[CHANNELS];
    bool found = false;
    for (int64_t k = 0; k < s->window.kernel_height * s->window.kernel_width; k++) {
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
