#include "format/images/image_weights.h"

#include <math.h>

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

/* Half away from zero. */
static int32_t to_fixed(double weight)
{
    return (int32_t)(weight * (1 << IMAGE_WEIGHT_BITS) + (weight < 0 ? -0.5 : 0.5));
}

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
        w->fixed[i * w->span + t] = to_fixed(exact[t]);
    }
    w->first[i] = first;
    w->taps[i] = taps;
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

void image_weights_fini(image_weights *weights)
{
    memory_free(weights->first);
    memory_free(weights->taps);
    memory_free(weights->exact);
    memory_free(weights->fixed);
    *weights = (image_weights){0};
}
