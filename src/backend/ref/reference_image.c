/* Images and norms of the reference backend: each slot as its formula, one output at a time. */
#include "backend/ref/reference.h"

#include <math.h>

/* Walks the taps of one output position: `row` and `column` of the input at tap (i, j). */
typedef struct tap {
    int64_t row, column;
} tap;

static tap tap_at(const window2d *w, int64_t out_row, int64_t out_column, int64_t i, int64_t j)
{
    return (tap){.row = out_row * w->stride - w->padding + i * w->dilation,
                 .column = out_column * w->stride - w->padding + j * w->dilation};
}

static bool is_inside(const conv_shape *s, tap t)
{
    return t.row >= 0 && t.row < s->in.height && t.column >= 0 && t.column < s->in.width;
}

/* The channels of an input position. */
static const double *pixel(const conv_shape *s, const double *x, int64_t sample, tap t)
{
    return x + ((sample * s->in.height + t.row) * s->in.width + t.column) * s->channels_in;
}

/* One output position, numbered over samples, rows and columns. */
typedef struct place {
    int64_t sample, row, column;
} place;

static place place_at(const conv_shape *s, int64_t index)
{
    const int64_t positions = s->out.height * s->out.width;
    return (place){.sample = index / positions,
                   .row = index % positions / s->out.width,
                   .column = index % s->out.width};
}

static int64_t place_count(const conv_shape *s)
{
    return s->samples * s->out.height * s->out.width;
}

/* sum over taps and channels of weight[c, tap] x[tap, c]; weight is one output channel's. */
static double convolve(const conv_shape *s, place at, const double *x, const double *weight)
{
    const int64_t height = s->window.kernel_height;
    const int64_t width = s->window.kernel_width;
    double sum = 0.0;
    for (int64_t i = 0; i < height; i++) {
        for (int64_t j = 0; j < width; j++) {
            const tap t = tap_at(&s->window, at.row, at.column, i, j);
            for (int64_t c = 0; is_inside(s, t) && c < s->channels_in; c++) {
                sum += pixel(s, x, at.sample, t)[c] * weight[(c * height + i) * width + j];
            }
        }
    }
    return sum;
}

grail_status ref_conv2d(const conv_shape *s, const void *x, const void *weight, const void *bias,
                        const conv_epilogue *epilogue, void *y)
{
    const int64_t taps = s->channels_in * s->window.kernel_height * s->window.kernel_width;
    const double *residual = epilogue == NULL ? NULL : epilogue->residual;
    for (int64_t index = 0; index < place_count(s); index++) {
        const place at = place_at(s, index);
        for (int64_t o = 0; o < s->channels_out; o++) {
            const int64_t element = index * s->channels_out + o;
            double sum = convolve(s, at, x, (const double *)weight + o * taps);
            sum += bias == NULL ? 0.0 : ((const double *)bias)[o];
            sum += residual == NULL ? 0.0 : residual[element];
            ((double *)y)[element] = epilogue != NULL && epilogue->relu && sum < 0.0 ? 0.0 : sum;
        }
    }
    return GRAIL_OK;
}

void ref_patches(const conv_shape *s, const void *x, int64_t begin, int64_t end, void *p)
{
    const int64_t height = s->window.kernel_height;
    const int64_t width = s->window.kernel_width;
    double *out = p;
    for (int64_t index = begin * s->out.width; index < end * s->out.width; index++) {
        const place at = place_at(s, index);
        for (int64_t c = 0; c < s->channels_in; c++) {
            for (int64_t k = 0; k < height * width; k++) {
                const tap t = tap_at(&s->window, at.row, at.column, k / width, k % width);
                *out++ = is_inside(s, t) ? pixel(s, x, at.sample, t)[c] : 0.0;
            }
        }
    }
}

grail_status ref_max_pool(const conv_shape *s, const void *x, void *y)
{
    const int64_t width = s->window.kernel_width;
    double *out = y;
    for (int64_t index = 0; index < place_count(s); index++) {
        const place at = place_at(s, index);
        for (int64_t c = 0; c < s->channels_in; c++) {
            double largest = -HUGE_VAL;
            for (int64_t k = 0; k < s->window.kernel_height * width; k++) {
                const tap t = tap_at(&s->window, at.row, at.column, k / width, k % width);
                if (is_inside(s, t)) {
                    largest = fmax(largest, pixel(s, x, at.sample, t)[c]);
                }
            }
            *out++ = largest;
        }
    }
    return GRAIL_OK;
}

/* Adds what one output position gives to the gradients: dx[tap, c] += sum_o dy_o weight[o, c, tap],
 * dweight[o, c, tap] += dy_o x[tap, c]. Either may be NULL. */
static void convolve_back(const conv_shape *s, place at, const double *x, const double *weight,
                          const double *dy, double *dx, double *dweight)
{
    const int64_t height = s->window.kernel_height;
    const int64_t width = s->window.kernel_width;
    const int64_t taps = height * width;
    for (int64_t k = 0; k < s->channels_out * taps; k++) {
        const int64_t o = k / taps;
        const tap t = tap_at(&s->window, at.row, at.column, k % taps / width, k % width);
        if (!is_inside(s, t)) {
            continue;
        }
        const int64_t first = pixel(s, x, at.sample, t) - x;
        for (int64_t c = 0; c < s->channels_in; c++) {
            const int64_t element = (o * s->channels_in + c) * taps + k % taps;
            if (dx != NULL) {
                dx[first + c] += dy[o] * weight[element];
            }
            if (dweight != NULL) {
                dweight[element] += dy[o] * x[first + c];
            }
        }
    }
}

static void clear_input(const conv_shape *s, double *dx)
{
    const int64_t count = s->samples * s->in.height * s->in.width * s->channels_in;
    for (int64_t i = 0; dx != NULL && i < count; i++) {
        dx[i] = 0.0;
    }
}

grail_status ref_conv2d_gradient(const conv_shape *s, const void *x, const void *weight,
                                 const void *dy, void *dx, void *dweight, void *dbias)
{
    clear_input(s, dx);
    for (int64_t index = 0; index < place_count(s); index++) {
        const double *from = (const double *)dy + index * s->channels_out;
        convolve_back(s, place_at(s, index), x, weight, from, dx, dweight);
        for (int64_t o = 0; dbias != NULL && o < s->channels_out; o++) {
            ((double *)dbias)[o] += from[o];
        }
    }
    return GRAIL_OK;
}

/* The element of x that is the first largest of a window in channel c. */
static int64_t largest_element(const conv_shape *s, place at, int64_t c, const double *x)
{
    const int64_t width = s->window.kernel_width;
    int64_t largest = -1;
    for (int64_t k = 0; k < s->window.kernel_height * width; k++) {
        const tap t = tap_at(&s->window, at.row, at.column, k / width, k % width);
        if (is_inside(s, t)) {
            const int64_t element = pixel(s, x, at.sample, t) - x + c;
            largest = largest < 0 || x[element] > x[largest] ? element : largest;
        }
    }
    return largest;
}

grail_status ref_max_pool_gradient(const conv_shape *s, const void *x, const void *dy, void *dx)
{
    clear_input(s, dx);
    for (int64_t i = 0; i < place_count(s) * s->channels_out; i++) {
        const place at = place_at(s, i / s->channels_out);
        const int64_t element = largest_element(s, at, i % s->channels_out, x);
        if (element >= 0) {
            ((double *)dx)[element] += ((const double *)dy)[i];
        }
    }
    return GRAIL_OK;
}

void ref_mean_positions(int64_t samples, int64_t positions, int64_t width, const void *x, void *y)
{
    for (int64_t sample = 0; sample < samples; sample++) {
        const double *in = (const double *)x + sample * positions * width;
        for (int64_t c = 0; c < width; c++) {
            double sum = 0.0;
            for (int64_t k = 0; k < positions; k++) {
                sum += in[k * width + c];
            }
            ((double *)y)[sample * width + c] = sum / (double)positions;
        }
    }
}

static double affine(double x, const double *weight, const double *bias, int64_t c)
{
    return x * (weight == NULL ? 1.0 : weight[c]) + (bias == NULL ? 0.0 : bias[c]);
}

void ref_batch_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                    const void *variance, const void *weight, const void *bias, void *y)
{
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t c = i % width;
        const double centred = ((const double *)x)[i] - ((const double *)mean)[c];
        const double deviation = sqrt(((const double *)variance)[c] + epsilon);
        ((double *)y)[i] = affine(centred / deviation, weight, bias, c);
    }
}

void ref_layer_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *weight,
                    const void *bias, void *y)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *in = (const double *)x + r * width;
        double *out = (double *)y + r * width;
        double sum = 0.0;
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            sum += in[c];
        }
        const double mean = sum / (double)width;
        for (int64_t c = 0; c < width; c++) {
            squares += (in[c] - mean) * (in[c] - mean);
        }
        const double deviation = sqrt(squares / (double)width + epsilon);
        for (int64_t c = 0; c < width; c++) {
            out[c] = affine((in[c] - mean) / deviation, weight, bias, c);
        }
    }
}

void ref_unit_length(int64_t rows, int64_t width, const void *x, void *y)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *in = (const double *)x + r * width;
        double squares = 0.0;
        for (int64_t c = 0; c < width; c++) {
            squares += in[c] * in[c];
        }
        const double length = fmax(sqrt(squares), 1e-12);
        for (int64_t c = 0; c < width; c++) {
            ((double *)y)[r * width + c] = in[c] / length;
        }
    }
}
