/* What the cpu backend does with images: convolution and pooling, patches, the mean over positions.
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

/* The epilogue in passes of its own. */
static grail_status convolve_apart(const conv_shape *s, const float *x, const float *weight,
                                   const float *bias, const conv_epilogue *epilogue, int64_t count,
                                   float *y)
{
    grail_status status = GRAIL_OK;
    float *product = NULL;
    TRY(memory_new_unset(&product, (size_t)count, sizeof product[0]));
    TRY(onednn_convolve(s, x, weight, bias, false, false, product));
    cpu_add(count, product, epilogue->residual, y);
    if (epilogue->relu) {
        cpu_activation(ACTIVATION_RELU, count, y, y);
    }
out:
    memory_free(product);
    return status;
}

grail_status cpu_conv2d(const conv_shape *s, const void *x, const void *weight, const void *bias,
                        const conv_epilogue *epilogue, void *y)
{
    const void *residual = epilogue == NULL ? NULL : epilogue->residual;
    const int64_t count = s->samples * s->out.height * s->out.width * s->channels_out;
    if (count == 0) {
        return GRAIL_OK;
    }
    if (residual != NULL && reads_only_padding(&s->window)) {
        return convolve_apart(s, x, weight, bias, epilogue, count, y);
    }
    if (residual != NULL && residual != y) {
        memcpy(y, residual, (size_t)count * sizeof(float));
    }
    return onednn_convolve(s, x, weight, bias, residual != NULL, epilogue != NULL && epilogue->relu,
                           y);
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
    parallel_for(end - begin, cpu_rows_grain(row), patch_rows, &job);
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
