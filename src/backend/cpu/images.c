/* Images in the cpu backend: convolution and pooling, patches, the mean over positions.
 */
#include "backend/cpu/clones.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/taps.h"

#include "base/parallel.h"

#include <string.h>

/* Whether some window reads nothing but padding. oneDNN 2.6.3 then forgets to accumulate. */
static bool reads_only_padding(const window2d *w)
{
    return w->padding > w->dilation * (w->kernel_height - 1) ||
           w->padding > w->dilation * (w->kernel_width - 1);
}

static int64_t row_of_weight(const conv_shape *s)
{
    return s->channels_in * s->window.kernel_height * s->window.kernel_width;
}

int64_t cpu_patch_step(const conv_shape *s)
{
    enum { PATCHES = 1 << 21 };
    const int64_t rows = s->samples * s->out.height;
    const int64_t most = PATCHES / (s->out.width * row_of_weight(s));
    return most < 1 ? 1 : most < rows ? most : rows;
}

/* oneDNN reads the entire weight for every image. Where that is much for few positions, a product
 * of the patches of many images at once is faster: 512 channels of 4 x 4 positions ran at 115
 * GFLOP/s in oneDNN and at 153 here. In all other shapes that were tried oneDNN was faster, 1 x 1
 * kernels and patch embeddings included. */
static bool prefers_product(const conv_shape *s)
{
    enum { MOST_POSITIONS = 16, LEAST_WEIGHT = 1 << 21 };
    return s->out.height * s->out.width <= MOST_POSITIONS &&
           s->channels_out * row_of_weight(s) >= LEAST_WEIGHT;
}

/* How a precision convolves. */
typedef struct conv_products {
    bool by_patches; /* where that is faster; in bf16 the weight would be rounded for every piece */
    grail_status (*convolve)(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, bool relu, float *y);
} conv_products;

/* Y = patches(X) W^T + bias, some output rows at a time so that their patches stay in cache. */
static grail_status convolve_by_product(const operation *o, matrix y)
{
    grail_status status = GRAIL_OK;
    const conv_shape *s = o->with.conv;
    const int64_t width = s->out.width;
    const int64_t rows = s->samples * s->out.height;
    const int64_t step = cpu_patch_step(s);
    float *memory = NULL;
    TRY(memory_new_unset(&memory, (size_t)(step * width * row_of_weight(s)), sizeof memory[0]));
    for (int64_t row = 0; row < rows; row += step) {
        const int64_t end = row + step < rows ? row + step : rows;
        const matrix patches =
            host_matrix(GRAIL_DTYPE_F32, memory, (end - row) * width, row_of_weight(s));
        const matrix made = matrix_rows(y, row * width, patches.rows);
        TRY(cpu_patches(
            &(operation){.m = {o->m[0], patches}, .with = {.conv = s, .begin = row, .end = end}}));
        TRY(cpu_linear(&(operation){.m = {patches, o->m[1], o->m[2], made}}));
    }
out:
    memory_free(memory);
    return status;
}

static grail_status convolve_as_asked(const conv_products *by, const operation *o, bool accumulate,
                                      bool relu, matrix y)
{
    return by->convolve(o->with.conv, o->m[0].memory, o->m[1].memory, o->m[2].memory, accumulate,
                        relu, y.memory);
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
        TRY(convolve_by_product(o, product));
    } else {
        TRY(convolve_as_asked(by, o, false, false, product));
    }
    if (residual.memory != NULL) {
        TRY(cpu_add(&(operation){.m = {product, residual, y}}));
    }
    if (o->with.relu) {
        TRY(cpu_activate(&(operation){.m = {y, y}, .with.activation = ACTIVATION_RELU}));
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
    return convolve_as_asked(by, o, residual != NULL, o->with.relu, y);
}

grail_status cpu_conv2d(const operation *o)
{
    static const conv_products by = {true, onednn_convolve};
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

typedef struct patch_job {
    const conv_shape *shape;
    const float *x;
    int64_t first; /* output row that `p` begins with */
    float *p;
} patch_job;

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

static void patch_rows(int64_t begin, int64_t end, void *context)
{
    const patch_job *job = context;
    const conv_shape *s = job->shape;
    const int64_t taps = s->window.kernel_height * s->window.kernel_width;
    const float *tap[TAPS];
    float *out = job->p + begin * s->out.width * s->channels_in * taps;
    for (int64_t index = begin * s->out.width; index < end * s->out.width; index++) {
        const int64_t row = job->first + index / s->out.width;
        const float *sample =
            job->x + row / s->out.height * s->in.height * s->in.width * s->channels_in;
        for (int64_t k0 = 0; k0 < taps; k0 += TAPS) {
            const int64_t count = taps - k0 < TAPS ? taps - k0 : TAPS;
            for (int64_t k = 0; k < count; k++) {
                tap[k] = find_tap(s, sample, row % s->out.height, index % s->out.width, k0 + k);
            }
            interleave(s->channels_in, count, tap, taps, out + k0);
        }
        out += s->channels_in * taps;
    }
}

grail_status cpu_patches(const operation *o)
{
    const conv_shape *s = o->with.conv;
    patch_job job = {s, o->m[0].memory, o->with.begin, o->m[1].memory};
    parallel_for(o->with.end - o->with.begin, host_rows_grain(s->out.width * row_of_weight(s)),
                 patch_rows, &job);
    return GRAIL_OK;
}

typedef struct mean_job {
    int64_t positions, width;
    const float *x;
    float *y;
} mean_job;

CPU_CLONES static void mean_samples(int64_t begin, int64_t end, void *context)
{
    enum { COLUMNS = 256 };
    const mean_job *job = context;
    double sum[COLUMNS];
    for (int64_t sample = begin; sample < end; sample++) {
        const float *x = job->x + sample * job->positions * job->width;
        for (int64_t c0 = 0; c0 < job->width; c0 += COLUMNS) {
            const int64_t count = job->width - c0 < COLUMNS ? job->width - c0 : COLUMNS;
            memset(sum, 0, sizeof sum);
            for (int64_t k = 0; k < job->positions; k++) {
                for (int64_t c = 0; c < count; c++) {
                    sum[c] += (double)x[k * job->width + c0 + c];
                }
            }
            for (int64_t c = 0; c < count; c++) {
                job->y[sample * job->width + c0 + c] = (float)(sum[c] / (double)job->positions);
            }
        }
    }
}

grail_status cpu_mean_positions(const operation *o)
{
    const matrix y = o->m[1];
    mean_job job = {.positions = y.rows > 0 ? o->m[0].rows / y.rows : 0,
                    .width = y.columns,
                    .x = o->m[0].memory,
                    .y = y.memory};
    parallel_for(y.rows, 1, mean_samples, &job);
    return GRAIL_OK;
}
