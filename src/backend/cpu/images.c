/* Images in the cpu backend: convolution and pooling, patches, the mean over positions.
 */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"

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
static grail_status convolve_by_product(const conv_shape *s, const float *x, const float *weight,
                                        const float *bias, float *y)
{
    grail_status status = GRAIL_OK;
    const int64_t width = row_of_weight(s);
    const int64_t rows = s->samples * s->out.height;
    const int64_t step = cpu_patch_step(s);
    float *patches = NULL;
    TRY(memory_new_unset(&patches, (size_t)(step * s->out.width * width), sizeof patches[0]));
    for (int64_t row = 0; row < rows; row += step) {
        const int64_t end = row + step < rows ? row + step : rows;
        cpu_patches(s, x, row, end, patches);
        TRY(cpu_linear((end - row) * s->out.width, width, s->channels_out, patches, weight, bias,
                       y + row * s->out.width * s->channels_out));
    }
out:
    memory_free(patches);
    return status;
}

/* The epilogue in separate passes. The residual may lie in Y, so it is added to a product in a
 * buffer of its own. */
static grail_status convolve_apart(const conv_products *by, const conv_shape *s, const float *x,
                                   const float *weight, const float *bias,
                                   const conv_epilogue *epilogue, float *y)
{
    grail_status status = GRAIL_OK;
    const int64_t count = s->samples * s->out.height * s->out.width * s->channels_out;
    const bool adds = epilogue != NULL && epilogue->residual != NULL;
    float *owned = NULL;
    if (adds) {
        TRY(memory_new_unset(&owned, (size_t)count, sizeof owned[0]));
    }
    float *product = adds ? owned : y;
    if (by->by_patches && prefers_product(s)) {
        TRY(convolve_by_product(s, x, weight, bias, product));
    } else {
        TRY(by->convolve(s, x, weight, bias, false, false, product));
    }
    if (adds) {
        cpu_add(count, product, epilogue->residual, y);
    }
    if (epilogue != NULL && epilogue->relu) {
        cpu_activation(ACTIVATION_RELU, count, y, y);
    }
out:
    memory_free(owned);
    return status;
}

static grail_status convolve(const conv_products *by, const conv_shape *s, const float *x,
                             const float *weight, const float *bias, const conv_epilogue *epilogue,
                             float *y)
{
    const void *residual = epilogue == NULL ? NULL : epilogue->residual;
    const int64_t count = s->samples * s->out.height * s->out.width * s->channels_out;
    if (count == 0) {
        return GRAIL_OK;
    }
    if ((by->by_patches && prefers_product(s)) ||
        (residual != NULL && reads_only_padding(&s->window))) {
        return convolve_apart(by, s, x, weight, bias, epilogue, y);
    }
    if (residual != NULL && residual != y) {
        memcpy(y, residual, (size_t)count * sizeof(float));
    }
    return by->convolve(s, x, weight, bias, residual != NULL, epilogue != NULL && epilogue->relu,
                        y);
}

grail_status cpu_conv2d(const conv_shape *s, const void *x, const void *weight, const void *bias,
                        const conv_epilogue *epilogue, void *y)
{
    static const conv_products by = {true, onednn_convolve};
    return convolve(&by, s, x, weight, bias, epilogue, y);
}

grail_status cpu_bf16_conv2d(const conv_shape *s, const void *x, const void *weight,
                             const void *bias, const conv_epilogue *epilogue, void *y)
{
    static const conv_products by = {false, cpu_bf16_convolve};
    return convolve(&by, s, x, weight, bias, epilogue, y);
}

grail_status cpu_max_pool(const conv_shape *s, const void *x, void *y)
{
    return s->samples == 0 || s->channels_in == 0 ? GRAIL_OK : onednn_maximum(s, x, y);
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
    const window2d *w = &s->window;
    const int64_t y = row * w->stride - w->padding + k / w->kernel_width * w->dilation;
    const int64_t x = column * w->stride - w->padding + k % w->kernel_width * w->dilation;
    if (y < 0 || y >= s->in.height || x < 0 || x >= s->in.width) {
        return NULL;
    }
    return sample + (y * s->in.width + x) * s->channels_in;
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

void cpu_patches(const conv_shape *shape, const void *x, int64_t begin, int64_t end, void *p)
{
    patch_job job = {shape, x, begin, p};
    const int64_t row = shape->out.width * shape->channels_in * shape->window.kernel_height *
                        shape->window.kernel_width;
    parallel_for(end - begin, host_rows_grain(row), patch_rows, &job);
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

void cpu_mean_positions(int64_t samples, int64_t positions, int64_t width, const void *x, void *y)
{
    mean_job job = {positions, width, x, y};
    parallel_for(samples, 1, mean_samples, &job);
}
