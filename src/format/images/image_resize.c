#include "format/images/image_resize.h"

#include <math.h>
#include <string.h>

/* -- the weights of one axis: which source pixels a result pixel is made of, and in what proportion
 * (Pillow's Resample.c). */

static const double PI = 3.14159265358979323846;

static double triangle(double x)
{
    const double distance = fabs(x);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

/* R. Keys, "Cubic convolution interpolation for digital image processing", 1981. */
static double cubic(double x)
{
    static const double a = -0.5;
    const double d = fabs(x);
    if (d < 1.0) {
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1;
    }
    return d < 2.0 ? (((d - 5) * d + 8) * d - 4) * a : 0.0;
}

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double hamming(double x)
{
    const double d = fabs(x);
    if (d == 0.0) {
        return 1.0;
    }
    const double angle = d * PI;
    return d < 1.0 ? sin(angle) / angle * (0.54 + 0.46 * cos(angle)) : 0.0;
}

static double sinc(double x)
{
    const double angle = x * PI;
    return x == 0.0 ? 1.0 : sin(angle) / angle;
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

typedef struct kernel {
    double (*value)(double x);
    double support; /* the value is 0 beyond it */
} kernel;

static const kernel kernels[] = {
    [IMAGE_BILINEAR] = {triangle, 1.0}, [IMAGE_BICUBIC] = {cubic, 2.0},   [IMAGE_BOX] = {box, 0.5},
    [IMAGE_HAMMING] = {hamming, 1.0},   [IMAGE_LANCZOS] = {lanczos, 3.0},
};

/* Row i of the weights: result pixel x of an axis shrunk `scale` times. */
static void fill_row(image_weights *w, int64_t i, int64_t x, int64_t in, double scale, kernel k)
{
    const double stretch = scale < 1.0 ? 1.0 : scale;
    const double support = k.support * stretch;
    const double center = ((double)x + 0.5) * scale;
    const double inverse = 1.0 / stretch;
    const int64_t low = (int64_t)(center - support + 0.5);
    const int64_t high = (int64_t)(center + support + 0.5);
    const int64_t first = low < 0 ? 0 : low;
    const int64_t taps = (high > in ? in : high) - first;
    double *exact = w->exact + i * w->span;
    double sum = 0.0;
    for (int64_t t = 0; t < taps; t++) {
        exact[t] = k.value(((double)(t + first) - center + 0.5) * inverse);
        sum += exact[t];
    }
    for (int64_t t = 0; t < taps; t++) {
        exact[t] = sum != 0.0 ? exact[t] / sum : exact[t];
        /* half away from zero */
        w->fixed[i * w->span + t] =
            (int32_t)(exact[t] * (1 << IMAGE_WEIGHT_BITS) + (exact[t] < 0 ? -0.5 : 0.5));
    }
    w->first[i] = first;
    w->taps[i] = taps;
}

void image_weights_fini(image_weights *weights)
{
    memory_free(weights->first);
    memory_free(weights->taps);
    memory_free(weights->exact);
    memory_free(weights->fixed);
    *weights = (image_weights){0};
}

grail_status image_weights_new(image_filter filter, int64_t in, int64_t out, int64_t begin,
                               int64_t count, image_weights *weights)
{
    grail_status status = GRAIL_OK;
    const kernel k = kernels[filter];
    const double scale = (double)in / (double)out;
    image_weights w = {.count = count,
                       .span = (int64_t)ceil(k.support * (scale < 1.0 ? 1.0 : scale)) * 2 + 1};
    TRY(memory_new(&w.first, (size_t)count, sizeof w.first[0]));
    TRY(memory_new(&w.taps, (size_t)count, sizeof w.taps[0]));
    TRY(memory_new(&w.exact, (size_t)count, (size_t)w.span * sizeof w.exact[0]));
    TRY(memory_new(&w.fixed, (size_t)count, (size_t)w.span * sizeof w.fixed[0]));
    for (int64_t i = 0; i < count; i++) {
        fill_row(&w, i, begin + i, in, scale, k);
    }
    *weights = w;
    w = (image_weights){0};
out:
    image_weights_fini(&w);
    return status;
}

/* -- resizing ---------------------------------------------------------------------------------- */

enum { HALF = 1 << (IMAGE_WEIGHT_BITS - 1), MOST_CHANNELS = 4 };

const char *image_filter_name(image_filter filter)
{
    static const char *const names[] = {
        [IMAGE_BILINEAR] = "bilinear", [IMAGE_BICUBIC] = "bicubic", [IMAGE_NEAREST] = "nearest",
        [IMAGE_BOX] = "box",           [IMAGE_HAMMING] = "hamming", [IMAGE_LANCZOS] = "lanczos"};
    return names[filter];
}

static unsigned char from_fixed(int32_t sum)
{
    const int32_t value = sum >> IMAGE_WEIGHT_BITS;
    return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static int32_t from_exact(double sum)
{
    return (int32_t)(sum >= 0.0 ? floor(sum + 0.5) : -floor(fabs(sum) + 0.5));
}

/* out[x, c] <- sum over t of fixed[x, t] in[first[x] + t, c] */
static inline void filter_row(const unsigned char *in, size_t channels, const image_weights *w,
                              unsigned char *out)
{
    for (int64_t x = 0; x < w->count; x++) {
        const unsigned char *from = in + (size_t)w->first[x] * channels;
        const int32_t *fixed = w->fixed + x * w->span;
        int32_t sums[MOST_CHANNELS] = {HALF, HALF, HALF, HALF};
        for (int64_t t = 0; t < w->taps[x]; t++) {
            for (size_t c = 0; c < channels; c++) {
                sums[c] += from[(size_t)t * channels + c] * fixed[t];
            }
        }
        for (size_t c = 0; c < channels; c++) {
            out[(size_t)x * channels + c] = from_fixed(sums[c]);
        }
    }
}

static void filter_wide_row(const int32_t *in, const image_weights *w, int32_t *out)
{
    for (int64_t x = 0; x < w->count; x++) {
        double sum = 0.0;
        for (int64_t t = 0; t < w->taps[x]; t++) {
            sum += in[w->first[x] + t] * w->exact[x * w->span + t];
        }
        out[x] = from_exact(sum);
    }
}

/* Wide pixels are int32 in memory that memory_new aligned. */
static const int32_t *wide_row(const image *picture, int64_t y)
{
    return (const int32_t *)(const void *)picture->pixels + y * picture->width;
}

static int32_t *wide_row_of(image *picture, int64_t y)
{
    return (int32_t *)(void *)picture->pixels + y * picture->width;
}

/* Row y of `out` <- row top + y of `source`, filtered. A constant number of channels lets the
 * compiler unroll the loops. */
static void filter_rows(const image *source, int64_t top, const image_weights *w, image *out)
{
    const size_t bytes = image_pixel_bytes(source->mode);
    for (int64_t y = 0; y < out->height; y++) {
        const unsigned char *in = source->pixels + (size_t)((top + y) * source->width) * bytes;
        unsigned char *to = out->pixels + (size_t)(y * out->width) * bytes;
        if (source->mode == IMAGE_GREY_WIDE) {
            filter_wide_row(wide_row(source, top + y), w, wide_row_of(out, y));
        } else if (bytes == 3) {
            filter_row(in, 3, w, to);
        } else {
            filter_row(in, bytes, w, to);
        }
    }
}

/* out[i] <- sum over t of fixed[t] in[first + t, i]; `sums` is scratch of a row. */
static void mix_rows(const image *source, const image_weights *w, int64_t y, int32_t *sums,
                     unsigned char *out)
{
    const size_t row = (size_t)source->width * image_pixel_bytes(source->mode);
    for (size_t i = 0; i < row; i++) {
        sums[i] = HALF;
    }
    for (int64_t t = 0; t < w->taps[y]; t++) {
        const unsigned char *in = source->pixels + (size_t)(w->first[y] + t) * row;
        const int32_t weight = w->fixed[y * w->span + t];
        for (size_t i = 0; i < row; i++) {
            sums[i] += in[i] * weight;
        }
    }
    for (size_t i = 0; i < row; i++) {
        out[i] = from_fixed(sums[i]);
    }
}

static void mix_wide_rows(const image *source, const image_weights *w, int64_t y, int32_t *out)
{
    for (int64_t x = 0; x < source->width; x++) {
        double sum = 0.0;
        for (int64_t t = 0; t < w->taps[y]; t++) {
            sum += wide_row(source, w->first[y] + t)[x] * w->exact[y * w->span + t];
        }
        out[x] = from_exact(sum);
    }
}

static grail_status filter_columns(const image *source, const image_weights *w, image *out)
{
    int32_t *sums = NULL;
    const size_t row = (size_t)source->width * image_pixel_bytes(source->mode);
    const grail_status status = memory_new_unset(&sums, row, sizeof *sums);
    for (int64_t y = 0; status == GRAIL_OK && y < out->height; y++) {
        if (source->mode == IMAGE_GREY_WIDE) {
            mix_wide_rows(source, w, y, wide_row_of(out, y));
        } else {
            mix_rows(source, w, y, sums, out->pixels + (size_t)y * row);
        }
    }
    memory_free(sums);
    return status;
}

static void copy_window(const image *source, int64_t left, int64_t top, image *out)
{
    const size_t bytes = image_pixel_bytes(source->mode);
    for (int64_t y = 0; y < out->height; y++) {
        memcpy(out->pixels + (size_t)(y * out->width) * bytes,
               source->pixels + (size_t)((top + y) * source->width + left) * bytes,
               (size_t)out->width * bytes);
    }
}

/* The columns of the window for rows top .. top + rows - 1 of the source; filtered if the width
 * changes. */
static grail_status resize_rows(const image *source, int64_t width, image_filter filter,
                                image_window window, int64_t top, int64_t rows, image *out)
{
    grail_status status = GRAIL_OK;
    image_weights w = {0};
    image made = {0};
    TRY(image_new(source->mode, window.width, rows, &made));
    if (width == source->width) {
        copy_window(source, window.left, top, &made);
    } else {
        TRY(image_weights_new(filter, source->width, width, window.left, window.width, &w));
        filter_rows(source, top, &w, &made);
    }
    *out = made;
    made = (image){0};
out:
    image_weights_fini(&w);
    image_fini(&made);
    return status;
}

/* Filters within rows first, then within columns, and rounds each result. Computes only the rows
 * that the window needs. */
static grail_status resize_filtered(const image *source, int64_t width, int64_t height,
                                    image_filter filter, image_window window, image *out)
{
    grail_status status = GRAIL_OK;
    image_weights w = {0};
    image narrow = {0};
    image made = {0};
    if (height == source->height) {
        return resize_rows(source, width, filter, window, window.top, window.height, out);
    }
    TRY(image_weights_new(filter, source->height, height, window.top, window.height, &w));
    const int64_t top = w.first[0];
    const int64_t rows = w.first[w.count - 1] + w.taps[w.count - 1] - top;
    TRY(resize_rows(source, width, filter, window, top, rows, &narrow));
    for (int64_t y = 0; y < w.count; y++) {
        w.first[y] -= top;
    }
    TRY(image_new(source->mode, window.width, window.height, &made));
    TRY(filter_columns(&narrow, &w, &made));
    *out = made;
    made = (image){0};
out:
    image_weights_fini(&w);
    image_fini(&narrow);
    image_fini(&made);
    return status;
}

/* places[i] <- the source pixel at the centre of result pixel begin + i. The position is a sum of
 * steps, as in Pillow's affine transform, because the sums round. */
static void nearest_places(int64_t in, int64_t out, int64_t begin, int64_t count, int64_t *places)
{
    const double step = (double)in / (double)out;
    double at = step * 0.5;
    for (int64_t x = 0; x < begin + count; x++) {
        if (x >= begin) {
            const int64_t place = (int64_t)at;
            places[x - begin] = place < in ? place : in - 1;
        }
        at += step;
    }
}

static grail_status resize_nearest(const image *source, int64_t width, int64_t height,
                                   image_window window, image *out)
{
    grail_status status = GRAIL_OK;
    int64_t *columns = NULL;
    int64_t *rows = NULL;
    const size_t bytes = image_pixel_bytes(source->mode);
    TRY(memory_new(&columns, (size_t)window.width, sizeof *columns));
    TRY(memory_new(&rows, (size_t)window.height, sizeof *rows));
    TRY(image_new(source->mode, window.width, window.height, out));
    nearest_places(source->width, width, window.left, window.width, columns);
    nearest_places(source->height, height, window.top, window.height, rows);
    for (int64_t y = 0; y < window.height; y++) {
        for (int64_t x = 0; x < window.width; x++) {
            memcpy(out->pixels + (size_t)(y * window.width + x) * bytes,
                   source->pixels + (size_t)(rows[y] * source->width + columns[x]) * bytes, bytes);
        }
    }
out:
    memory_free(columns);
    memory_free(rows);
    return status;
}

/* Colours are multiplied by alpha, the last channel, before filtering and divided by it after. */
static grail_status resize_with_alpha(const image *source, int64_t width, int64_t height,
                                      image_filter filter, image_window window, image *out)
{
    grail_status status = GRAIL_OK;
    image multiplied = {0};
    const size_t channels = image_pixel_bytes(source->mode);
    TRY(image_new(source->mode, source->width, source->height, &multiplied));
    for (size_t i = 0; i < (size_t)(source->width * source->height); i++) {
        const unsigned char *in = source->pixels + i * channels;
        unsigned char *to = multiplied.pixels + i * channels;
        const int alpha = in[channels - 1];
        for (size_t c = 0; c + 1 < channels; c++) {
            to[c] = (unsigned char)image_multiply(in[c], alpha);
        }
        to[channels - 1] = (unsigned char)alpha;
    }
    TRY(resize_filtered(&multiplied, width, height, filter, window, out));
    for (size_t i = 0; i < (size_t)(out->width * out->height); i++) {
        unsigned char *pixel = out->pixels + i * channels;
        const int alpha = pixel[channels - 1];
        for (size_t c = 0; alpha > 0 && c + 1 < channels; c++) {
            const int value = 255 * pixel[c] / alpha;
            pixel[c] = (unsigned char)(value > 255 ? 255 : value);
        }
    }
out:
    image_fini(&multiplied);
    return status;
}

grail_status image_resize(const image *source, int64_t width, int64_t height, image_filter filter,
                          image_window window, image *out)
{
    grail_status status = GRAIL_OK;
    image made = {0};
    if (filter == IMAGE_NEAREST || source->mode == IMAGE_PALETTE || source->mode == IMAGE_BILEVEL) {
        TRY(resize_nearest(source, width, height, window, &made));
    } else if ((source->mode == IMAGE_GREY_ALPHA || source->mode == IMAGE_RGBA) &&
               (width != source->width || height != source->height)) {
        TRY(resize_with_alpha(source, width, height, filter, window, &made));
    } else {
        TRY(resize_filtered(source, width, height, filter, window, &made));
    }
    memcpy(made.palette, source->palette, sizeof made.palette);
    *out = made;
    made = (image){0};
out:
    image_fini(&made);
    return status;
}
