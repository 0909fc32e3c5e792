/* Convolutions of each channel on its own in the cpu backend, as sums over all channels of a
 * position at once, tap by tap. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/taps.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <string.h>

typedef struct depthwise_job {
    const operation *operation;
    const float *weight; /* [taps, channels], unlike the operation's */
} depthwise_job;

CPU_CLONES static void add_products(int64_t count, const float *a, const float *b, float *sums)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += a[i] * b[i];
    }
}

static int64_t taps_of(const conv_shape *s)
{
    return window_taps(&s->window);
}

/* The element of X where the channels of a tap begin, of output position `index` of all samples; -1
 * outside. */
static int64_t tap_element(const conv_shape *s, int64_t index, int64_t k)
{
    const int64_t positions = s->out.height * s->out.width;
    const int64_t at = tap_position(s, index % positions / s->out.width, index % s->out.width, k);
    return at < 0 ? -1 : (index / positions * s->in.height * s->in.width + at) * s->channels_in;
}

static void convolve_positions(int64_t begin, int64_t end, void *context)
{
    const depthwise_job *job = context;
    const matrix *m = job->operation->m;
    const conv_shape *s = job->operation->with.conv;
    const int64_t channels = s->channels_out;
    const float *x = m[0].memory;
    for (int64_t index = begin; index < end; index++) {
        float *y = host_row(m[3], index);
        if (m[2].memory == NULL) {
            memset(y, 0, (size_t)channels * sizeof *y);
        } else {
            memcpy(y, m[2].memory, (size_t)channels * sizeof *y);
        }
        for (int64_t k = 0; k < taps_of(s); k++) {
            const int64_t from = tap_element(s, index, k);
            if (from >= 0) {
                add_products(channels, job->weight + k * channels, x + from, y);
            }
        }
    }
}

/* Windows of one sample may overlap: it is one thread's. */
static void return_samples(int64_t begin, int64_t end, void *context)
{
    const depthwise_job *job = context;
    const matrix dy = job->operation->m[2];
    const conv_shape *s = job->operation->with.conv;
    float *dx = job->operation->m[3].memory;
    const int64_t channels = s->channels_out;
    const int64_t inputs = s->in.height * s->in.width * channels;
    const int64_t positions = s->out.height * s->out.width;
    memset(dx + begin * inputs, 0, (size_t)((end - begin) * inputs) * sizeof(float));
    for (int64_t i = begin * positions * taps_of(s); i < end * positions * taps_of(s); i++) {
        const int64_t index = i / taps_of(s);
        const int64_t k = i % taps_of(s);
        const int64_t to = tap_element(s, index, k);
        if (to >= 0) {
            add_products(channels, job->weight + k * channels, host_row(dy, index), dx + to);
        }
    }
}

enum { CHANNELS = 64 }; /* whose sums over positions are formed at once */

/* dweight[c, k] += sum over positions, for one tap and up to CHANNELS channels each. */
static void sum_taps(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const conv_shape *s = o->with.conv;
    const float *x = o->m[0].memory;
    float *dweight = o->m[4].memory;
    const int64_t channels = s->channels_out;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i % taps_of(s);
        const int64_t first = i / taps_of(s) * CHANNELS;
        const int64_t count = smaller(channels - first, CHANNELS);
        double sums[CHANNELS] = {0};
        for (int64_t index = 0; index < s->samples * s->out.height * s->out.width; index++) {
            const int64_t from = tap_element(s, index, k);
            if (from >= 0) {
                accumulate_products(count, x + from + first, host_element(o->m[2], index, first),
                                    sums);
            }
        }
        for (int64_t c = 0; c < count; c++) {
            dweight[(first + c) * taps_of(s) + k] += (float)sums[c];
        }
    }
}

/* An owned copy of weight[channels, taps] as [taps, channels]. */
static grail_status transpose(matrix weight, float **out)
{
    const float *from = weight.memory;
    CHECK(memory_new_unset(out, (size_t)matrix_count(weight), sizeof **out));
    for (int64_t i = 0; i < matrix_count(weight); i++) {
        (*out)[i % weight.columns * weight.rows + i / weight.columns] = from[i];
    }
    return GRAIL_OK;
}

grail_status cpu_depthwise(const operation *o)
{
    float *weight = NULL;
    CHECK(transpose(o->m[1], &weight));
    depthwise_job job = {o, weight};
    parallel_for(o->m[3].rows, host_rows_grain(matrix_count(o->m[1])), convolve_positions, &job);
    memory_free(weight);
    return GRAIL_OK;
}

grail_status cpu_depthwise_gradient(const operation *o)
{
    const conv_shape *s = o->with.conv;
    float *weight = NULL;
    CHECK(transpose(o->m[1], &weight));
    depthwise_job job = {o, weight};
    if (o->m[3].memory != NULL) {
        parallel_for(s->samples, 1, return_samples, &job);
    }
    if (o->m[4].memory != NULL) {
        const int64_t pieces = (s->channels_out + CHANNELS - 1) / CHANNELS;
        parallel_for(pieces * taps_of(s), 1, sum_taps, (void *)(uintptr_t)o);
    }
    memory_free(weight);
    return GRAIL_OK;
}
