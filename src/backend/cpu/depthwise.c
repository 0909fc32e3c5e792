/* Convolutions of each channel on its own in the cpu backend, as sums over many channels of a
 * position at once. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/taps.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <string.h>

typedef struct depthwise_job {
    const operation *operation;
    const float *weight; /* [taps, channels], unlike the operation's, and the bias or zeros */
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

/* The taps of one output position that lie inside the input, and what their sums begin with. The
 * weights and inputs of a tap are those of all channels, side by side. */
typedef struct tap_reads {
    int64_t rows, columns;
    const float *weight, *x;                            /* of the first tap */
    int64_t weight_row, x_row, weight_column, x_column; /* elements to the next one */
    const float *start;
} tap_reads;

/* Defines NAME: y = start + the products of all taps, for WIDTH channels from `first`. WIDTH is a
 * constant, so that the sums stay in vector registers. */
#define SUM_CHANNELS(name, width)                                                                  \
    CPU_CLONES static void name(int64_t first, const tap_reads *r, float *restrict y)              \
    {                                                                                              \
        float sums[width];                                                                         \
        memcpy(sums, r->start + first, sizeof sums);                                               \
        for (int64_t row = 0; row < r->rows; row++) {                                              \
            const float *weight = r->weight + row * r->weight_row + first;                         \
            const float *x = r->x + row * r->x_row + first;                                        \
            for (int64_t column = 0; column < r->columns; column++) {                              \
                for (int c = 0; c < (width); c++) {                                                \
                    sums[c] += weight[c] * x[c];                                                   \
                }                                                                                  \
                weight += r->weight_column;                                                        \
                x += r->x_column;                                                                  \
            }                                                                                      \
        }                                                                                          \
        memcpy(y + first, sums, sizeof sums);                                                      \
    }
SUM_CHANNELS(sum_64_channels, 64)
SUM_CHANNELS(sum_16_channels, 16)
SUM_CHANNELS(sum_channel, 1)

static void sum_taps_inside(int64_t channels, const tap_reads *r, float *y)
{
    int64_t c = 0;
    for (; c + 64 <= channels; c += 64) {
        sum_64_channels(c, r, y);
    }
    for (; c + 16 <= channels; c += 16) {
        sum_16_channels(c, r, y);
    }
    for (; c < channels; c++) {
        sum_channel(c, r, y);
    }
}

/* How many taps along an axis lie inside the input; *tap is the first, *at the position that it
 * reads. */
static int64_t taps_inside(const window_axis *a, int64_t in, int64_t out, int64_t *tap, int64_t *at)
{
    const int64_t first = out * a->stride - a->before;
    const int64_t outside = first < 0 ? (a->dilation - 1 - first) / a->dilation : 0;
    const int64_t reached = first < in ? (in - first + a->dilation - 1) / a->dilation : 0;
    *tap = outside;
    *at = first + outside * a->dilation;
    return smaller(reached, a->kernel) - outside;
}

static void convolve_positions(int64_t begin, int64_t end, void *context)
{
    const depthwise_job *job = context;
    const matrix *m = job->operation->m;
    const conv_shape *s = job->operation->with.conv;
    const window2d *w = &s->window;
    const int64_t channels = s->channels_out;
    const int64_t positions = s->out.height * s->out.width;
    tap_reads r = {.weight_row = w->width.kernel * channels,
                   .weight_column = channels,
                   .x_row = w->height.dilation * s->in.width * channels,
                   .x_column = w->width.dilation * channels,
                   .start = job->weight + taps_of(s) * channels};
    const float *in = m[0].memory;
    float *out = m[3].memory;
    for (int64_t index = begin; index < end; index++) {
        const int64_t at = index % positions;
        int64_t row = 0;
        int64_t column = 0;
        int64_t y = 0;
        int64_t x = 0;
        r.rows = taps_inside(&w->height, s->in.height, at / s->out.width, &row, &y);
        r.columns = taps_inside(&w->width, s->in.width, at % s->out.width, &column, &x);
        if (r.rows <= 0 || r.columns <= 0) { /* all of it lies in the padding */
            r.rows = 0;
        } else {
            const float *sample =
                in + index / positions * s->in.height * s->in.width * s->channels_in;
            r.weight = job->weight + (row * w->width.kernel + column) * channels;
            r.x = sample + (y * s->in.width + x) * channels;
        }
        sum_taps_inside(channels, &r, out + index * channels);
        if (job->operation->with.ceiling != 0.0) {
            cpu_limit(channels, (float)job->operation->with.ceiling, out + index * channels);
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

/* An owned copy of weight[channels, taps] as [taps, channels], and a row of the bias or zeros. */
static grail_status transpose(matrix weight, matrix bias, float **out)
{
    const float *from = weight.memory;
    CHECK(memory_new(out, (size_t)(matrix_count(weight) + weight.rows), sizeof **out));
    for (int64_t i = 0; i < matrix_count(weight); i++) {
        (*out)[i % weight.columns * weight.rows + i / weight.columns] = from[i];
    }
    if (bias.memory != NULL) {
        memcpy(*out + matrix_count(weight), bias.memory, (size_t)weight.rows * sizeof **out);
    }
    return GRAIL_OK;
}

grail_status cpu_depthwise(const operation *o)
{
    float *weight = NULL;
    CHECK(transpose(o->m[1], o->m[2], &weight));
    depthwise_job job = {o, weight};
    parallel_for(o->m[3].rows, host_rows_grain(matrix_count(o->m[1])), convolve_positions, &job);
    memory_free(weight);
    return GRAIL_OK;
}

grail_status cpu_depthwise_gradient(const operation *o)
{
    const conv_shape *s = o->with.conv;
    float *weight = NULL;
    CHECK(transpose(o->m[1], no_matrix, &weight));
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
