/* Images and norms of the reference backend: each slot as its formula, one output at a time. */
#include "backend/ref/reference.h"

#include <math.h>
#include <string.h>

static int64_t tap_count(const conv_shape *s)
{
    return window_taps(&s->window);
}

/* Output positions, numbered over samples, rows and columns. */
static int64_t position_count(const conv_shape *s)
{
    return s->samples * s->out.height * s->out.width;
}

/* The element of X that tap k of an output position reads in channel c, -1 outside. */
static int64_t tap_element(const conv_shape *s, int64_t position, int64_t c, int64_t k)
{
    const window_axis *h = &s->window.height;
    const window_axis *w = &s->window.width;
    const int64_t sample = position / (s->out.height * s->out.width);
    const int64_t out_row = position / s->out.width % s->out.height;
    const int64_t out_column = position % s->out.width;
    const int64_t row = out_row * h->stride - h->before + k / w->kernel * h->dilation;
    const int64_t column = out_column * w->stride - w->before + k % w->kernel * w->dilation;
    const bool inside = row >= 0 && row < s->in.height && column >= 0 && column < s->in.width;
    return inside ? ((sample * s->in.height + row) * s->in.width + column) * s->channels_in + c
                  : -1;
}

/* Channels of the input that each output reads, and the first one that output `o` reads. */
static int64_t channels_read(const conv_shape *s)
{
    return s->channels_in / conv_groups(s);
}

static int64_t first_read(const conv_shape *s, int64_t o)
{
    return o / (s->channels_out / conv_groups(s)) * channels_read(s);
}

/* sum over taps and channels of weight[c, tap] x[tap, c]; weight is that of output `o`. */
static double convolve(const conv_shape *s, int64_t position, int64_t o, const double *x,
                       const double *weight)
{
    double sum = 0.0;
    for (int64_t k = 0; k < tap_count(s); k++) {
        const int64_t first = tap_element(s, position, first_read(s, o), k);
        for (int64_t c = 0; first >= 0 && c < channels_read(s); c++) {
            sum += x[first + c] * weight[c * tap_count(s) + k];
        }
    }
    return sum;
}

/* NaN stays. */
static double limited(double x, double ceiling)
{
    return ceiling == 0.0 ? x : x < 0.0 ? 0.0 : x > ceiling ? ceiling : x;
}

grail_status ref_conv2d(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const double *weight = o->m[1].memory;
    const double *bias = o->m[2].memory;
    const double *residual = o->m[3].memory;
    double *y = o->m[4].memory;
    for (int64_t element = 0; element < matrix_count(o->m[4]); element++) {
        const int64_t c = element % s->channels_out;
        double sum =
            convolve(s, element / s->channels_out, c, o->m[0].memory, weight + c * o->m[1].columns);
        sum += bias == NULL ? 0.0 : bias[c];
        sum += residual == NULL ? 0.0 : residual[element];
        y[element] = limited(sum, o->with.ceiling);
    }
    return GRAIL_OK;
}

grail_status ref_patches(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const double *x = o->m[0].memory;
    const int64_t first = o->with.begin * s->out.width;
    double *out = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[1]); i++) {
        const int64_t column = i % o->m[1].columns;
        const int64_t element = tap_element(s, first + i / o->m[1].columns, column / tap_count(s),
                                            column % tap_count(s));
        out[i] = element < 0 ? 0.0 : x[element];
    }
    return GRAIL_OK;
}

grail_status ref_put_patches(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const double *p = o->m[0].memory;
    double *x = o->m[1].memory;
    memset(x, 0, (size_t)matrix_count(o->m[1]) * sizeof x[0]);
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const int64_t column = i % o->m[0].columns;
        const int64_t element =
            tap_element(s, i / o->m[0].columns, column / tap_count(s), column % tap_count(s));
        if (element >= 0) {
            x[element] += p[i];
        }
    }
    return GRAIL_OK;
}

/* The element of x that is the first largest of a window in channel c, -1 where it has none. */
static int64_t largest_element(const conv_shape *s, int64_t position, int64_t c, const double *x)
{
    int64_t largest = -1;
    for (int64_t k = 0; k < tap_count(s); k++) {
        const int64_t element = tap_element(s, position, c, k);
        if (element >= 0 && (largest < 0 || x[element] > x[largest])) {
            largest = element;
        }
    }
    return largest;
}

grail_status ref_max_pool(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[1]); i++) {
        const int64_t channels = o->m[1].columns;
        const int64_t element = largest_element(o->with.conv, i / channels, i % channels, x);
        y[i] = element < 0 ? -HUGE_VAL : x[element];
    }
    return GRAIL_OK;
}

/* Adds what one output position gives to the gradients: dx[tap, c] += sum_o dy_o weight[o, c, tap],
 * dweight[o, c, tap] += dy_o x[tap, c]. Either may be NULL. */
static void convolve_back(const conv_shape *s, int64_t position, const double *x,
                          const double *weight, const double *dy, double *dx, double *dweight)
{
    const int64_t taps = tap_count(s);
    const int64_t columns = channels_read(s) * taps;
    for (int64_t i = 0; i < s->channels_out * columns; i++) { /* of the weight */
        const int64_t o = i / columns;
        const int64_t c = first_read(s, o) + i % columns / taps;
        const int64_t element = tap_element(s, position, c, i % taps);
        if (element >= 0 && dx != NULL) {
            dx[element] += dy[o] * weight[i];
        }
        if (element >= 0 && dweight != NULL) {
            dweight[i] += dy[o] * x[element];
        }
    }
}

static void clear(matrix dx)
{
    if (dx.memory != NULL) {
        memset(dx.memory, 0, (size_t)matrix_count(dx) * sizeof(double));
    }
}

grail_status ref_depthwise(const operation *o)
{
    const int64_t channels = o->m[3].columns;
    const int64_t taps = o->m[1].columns;
    const double *x = o->m[0].memory;
    const double *weight = o->m[1].memory;
    const double *bias = o->m[2].memory;
    double *y = o->m[3].memory;
    for (int64_t i = 0; i < matrix_count(o->m[3]); i++) {
        const int64_t c = i % channels;
        y[i] = bias == NULL ? 0.0 : bias[c];
        for (int64_t k = 0; k < taps; k++) {
            const int64_t element = tap_element(o->with.conv, i / channels, c, k);
            y[i] += element < 0 ? 0.0 : weight[c * taps + k] * x[element];
        }
        y[i] = limited(y[i], o->with.ceiling);
    }
    return GRAIL_OK;
}

grail_status ref_depthwise_gradient(const operation *o)
{
    const int64_t channels = o->m[2].columns;
    const int64_t taps = o->m[1].columns;
    const double *x = o->m[0].memory;
    const double *weight = o->m[1].memory;
    const double *dy = o->m[2].memory;
    double *dx = o->m[3].memory;
    double *dweight = o->m[4].memory;
    clear(o->m[3]);
    for (int64_t i = 0; i < matrix_count(o->m[2]) * taps; i++) {
        const int64_t out = i / taps;
        const int64_t w = out % channels * taps + i % taps;
        const int64_t element = tap_element(o->with.conv, out / channels, out % channels, i % taps);
        if (element >= 0 && dx != NULL) {
            dx[element] += weight[w] * dy[out];
        }
        if (element >= 0 && dweight != NULL) {
            dweight[w] += x[element] * dy[out];
        }
    }
    return GRAIL_OK;
}

grail_status ref_conv2d_gradient(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const matrix *m = o->m;
    double *dbias = m[5].memory;
    clear(m[3]);
    for (int64_t position = 0; position < position_count(s); position++) {
        const double *dy = host_row(m[2], position);
        convolve_back(s, position, m[0].memory, m[1].memory, dy, m[3].memory, m[4].memory);
        for (int64_t c = 0; dbias != NULL && c < s->channels_out; c++) {
            dbias[c] += dy[c];
        }
    }
    return GRAIL_OK;
}

grail_status ref_max_pool_gradient(const operation *o)
{
    const double *dy = o->m[1].memory;
    double *dx = o->m[2].memory;
    clear(o->m[2]);
    for (int64_t i = 0; i < matrix_count(o->m[1]); i++) {
        const int64_t channels = o->m[1].columns;
        const int64_t element =
            largest_element(o->with.conv, i / channels, i % channels, o->m[0].memory);
        if (element >= 0) {
            dx[element] += dy[i];
        }
    }
    return GRAIL_OK;
}

/* The taps of a window that count in a mean: inside the input, or inside what surrounds it. */
static int64_t taps_that_count(const conv_shape *s, bool padded, int64_t position)
{
    conv_shape whole = *s;
    if (padded) { /* as an input of its own, in which the window begins at the first position */
        whole.in.height += s->window.height.before + s->window.height.behind;
        whole.in.width += s->window.width.before + s->window.width.behind;
        whole.window.height.before = 0;
        whole.window.width.before = 0;
    }
    int64_t count = 0;
    for (int64_t k = 0; k < tap_count(s); k++) {
        count += tap_element(&whole, position, 0, k) >= 0;
    }
    return count;
}

grail_status ref_average_pool(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[1]); i++) {
        const int64_t position = i / s->channels_out;
        const int64_t count = taps_that_count(s, o->with.counts_padding, position);
        y[i] = 0.0;
        for (int64_t k = 0; k < tap_count(s); k++) {
            const int64_t element = tap_element(s, position, i % s->channels_out, k);
            y[i] += element < 0 ? 0.0 : x[element] / (double)count;
        }
    }
    return GRAIL_OK;
}

grail_status ref_average_pool_gradient(const operation *o)
{
    const conv_shape *s = o->with.conv;
    const double *dy = o->m[0].memory;
    double *dx = o->m[1].memory;
    clear(o->m[1]);
    for (int64_t i = 0; i < matrix_count(o->m[0]) * tap_count(s); i++) {
        const int64_t out = i / tap_count(s);
        const int64_t position = out / s->channels_out;
        const int64_t element = tap_element(s, position, out % s->channels_out, i % tap_count(s));
        if (element >= 0) {
            dx[element] += dy[out] / (double)taps_that_count(s, o->with.counts_padding, position);
        }
    }
    return GRAIL_OK;
}

grail_status ref_mean_positions(const operation *o)
{
    const matrix y = o->m[1];
    const int64_t positions = y.rows > 0 ? o->m[0].rows / y.rows : 0;
    for (int64_t sample = 0; sample < y.rows; sample++) {
        const double *in = host_row(o->m[0], sample * positions);
        double *out = host_row(y, sample);
        for (int64_t c = 0; c < y.columns; c++) {
            double sum = 0.0;
            for (int64_t k = 0; k < positions; k++) {
                sum += in[k * y.columns + c];
            }
            out[c] = sum / (double)positions;
        }
    }
    return GRAIL_OK;
}

static double affine(double x, const double *weight, const double *bias, int64_t c)
{
    return x * (weight == NULL ? 1.0 : weight[c]) + (bias == NULL ? 0.0 : bias[c]);
}

grail_status ref_batch_norm(const operation *o)
{
    const double *x = o->m[0].memory;
    const double *mean = o->m[1].memory;
    const double *variance = o->m[2].memory;
    double *y = o->m[5].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const int64_t c = i % o->m[0].columns;
        const double deviation = sqrt(variance[c] + o->with.epsilon);
        y[i] = affine((x[i] - mean[c]) / deviation, o->m[3].memory, o->m[4].memory, c);
    }
    return GRAIL_OK;
}

grail_status ref_layer_norm(const operation *o)
{
    const int64_t width = o->m[0].columns;
    for (int64_t r = 0; r < o->m[0].rows; r++) {
        const double *in = host_row(o->m[0], r);
        double *out = host_row(o->m[3], r);
        double sum = 0.0;
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            sum += in[c];
        }
        const double mean = sum / (double)width;
        for (int64_t c = 0; c < width; c++) {
            squares += (in[c] - mean) * (in[c] - mean);
        }
        const double deviation = sqrt(squares / (double)width + o->with.epsilon);
        for (int64_t c = 0; c < width; c++) {
            out[c] = affine((in[c] - mean) / deviation, o->m[1].memory, o->m[2].memory, c);
        }
    }
    return GRAIL_OK;
}

grail_status ref_unit_length(const operation *o)
{
    const int64_t width = o->m[0].columns;
    for (int64_t r = 0; r < o->m[0].rows; r++) {
        const double *in = host_row(o->m[0], r);
        double *out = host_row(o->m[1], r);
        const double length = fmax(sqrt(host_dot(width, in, in)), 1e-12);
        for (int64_t c = 0; c < width; c++) {
            out[c] = in[c] / length;
        }
    }
    return GRAIL_OK;
}
