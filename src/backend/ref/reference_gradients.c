/* Gradients of the reference backend: each as its formula in gradients.h, element by element. */
#include "backend/ref/reference.h"

#include <math.h>

grail_status ref_product(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                         const void *a, const void *b, double beta, void *c)
{
    ref_gemm(transpose_a, transpose_b, m, n, k, 1.0, a, transpose_a ? m : k, b, transpose_b ? k : n,
             beta, c, n);
    return GRAIL_OK;
}

static void add_to(double *sums, int64_t i, double value)
{
    if (sums != NULL) {
        sums[i] += value;
    }
}

grail_status ref_rms_norm_gradient(int64_t rows, int64_t width, int64_t group, double epsilon,
                                   const void *x, const void *weight, const void *dy, void *dx,
                                   void *dweight)
{
    const double *w = weight;
    for (int64_t start = 0; start < rows * width; start += group) {
        const double *in = (const double *)x + start;
        const double *dout = (const double *)dy + start;
        double squares = 0.0;
        double product = 0.0;
        for (int64_t i = 0; i < group; i++) {
            squares += in[i] * in[i];
            product += w[i] * dout[i] * in[i];
        }
        const double factor = 1.0 / sqrt(squares / (double)group + epsilon);
        const double share = product * factor * factor * factor / (double)group;
        for (int64_t i = 0; i < group; i++) {
            add_to(dweight, i, dout[i] * in[i] * factor);
            ((double *)dx)[start + i] = w[i] * dout[i] * factor - in[i] * share;
        }
    }
    return GRAIL_OK;
}

static double weight_at(const double *weight, int64_t c)
{
    return weight == NULL ? 1.0 : weight[c];
}

/* One row of a layer norm. */
static void layer_row(int64_t width, double epsilon, const double *x, const double *weight,
                      const double *dy, double *dx, double *dweight, double *dbias)
{
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t c = 0; c < width; c++) {
        sum += x[c];
    }
    const double mean = sum / (double)width;
    for (int64_t c = 0; c < width; c++) {
        squares += (x[c] - mean) * (x[c] - mean);
    }
    const double deviation = sqrt(squares / (double)width + epsilon);
    double total = 0.0;
    double product = 0.0;
    for (int64_t c = 0; c < width; c++) {
        const double g = weight_at(weight, c) * dy[c];
        total += g;
        product += g * (x[c] - mean) / deviation;
    }
    for (int64_t c = 0; c < width; c++) {
        const double normal = (x[c] - mean) / deviation;
        const double g = weight_at(weight, c) * dy[c];
        add_to(dweight, c, dy[c] * normal);
        add_to(dbias, c, dy[c]);
        dx[c] = (g - total / (double)width - normal * product / (double)width) / deviation;
    }
}

grail_status ref_layer_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *weight, const void *dy, void *dx, void *dweight,
                                     void *dbias)
{
    for (int64_t start = 0; start < rows * width; start += width) {
        layer_row(width, epsilon, (const double *)x + start, weight, (const double *)dy + start,
                  (double *)dx + start, dweight, dbias);
    }
    return GRAIL_OK;
}

grail_status ref_batch_norm_gradient(int64_t rows, int64_t width, double epsilon, const void *x,
                                     const void *mean, const void *variance, const void *weight,
                                     const void *dy, void *dx, void *dweight, void *dbias)
{
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t c = i % width;
        const double deviation = sqrt(((const double *)variance)[c] + epsilon);
        const double centred = ((const double *)x)[i] - ((const double *)mean)[c];
        const double g = ((const double *)dy)[i];
        add_to(dweight, c, g * centred / deviation);
        add_to(dbias, c, g);
        if (dx != NULL) {
            ((double *)dx)[i] = weight_at(weight, c) * g / deviation;
        }
    }
    return GRAIL_OK;
}

void ref_unit_length_gradient(int64_t rows, int64_t width, const void *x, const void *dy, void *dx)
{
    const double least = 1e-12;
    for (int64_t start = 0; start < rows * width; start += width) {
        const double *in = (const double *)x + start;
        const double *dout = (const double *)dy + start;
        double squares = 0.0;
        double product = 0.0;
        for (int64_t c = 0; c < width; c++) {
            squares += in[c] * in[c];
            product += in[c] * dout[c];
        }
        const double length = fmax(sqrt(squares), least);
        const double share = sqrt(squares) > least ? product / squares : 0.0;
        for (int64_t c = 0; c < width; c++) {
            ((double *)dx)[start + c] = (dout[c] - in[c] * share) / length;
        }
    }
}

/* Of x s(u), s(u) = 1 / (1 + exp(-u)) with du/dx = slope. */
static double gated_slope(double x, double u, double slope)
{
    const double s = 1.0 / (1.0 + exp(-u));
    return s + x * s * (1.0 - s) * slope;
}

static double slope_of(activation_kind kind, double x)
{
    const double tanh_factor = M_2_SQRTPI * M_SQRT1_2; /* sqrt(2 / pi) */
    switch (kind) {
    case ACTIVATION_SILU:
        return gated_slope(x, x, 1.0);
    case ACTIVATION_GELU: /* Phi(x) + x phi(x) */
        return 0.5 * erfc(-x * M_SQRT1_2) + 0.5 * tanh_factor * x * exp(-0.5 * x * x);
    case ACTIVATION_GELU_TANH: /* 0.5 x (1 + tanh u) = x s(2 u) */
        return gated_slope(x, 2.0 * tanh_factor * (x + 0.044715 * x * x * x),
                           2.0 * tanh_factor * (1.0 + 3.0 * 0.044715 * x * x));
    case ACTIVATION_QUICK_GELU:
        return gated_slope(x, 1.702 * x, 1.702);
    case ACTIVATION_RELU:
        break;
    }
    return x > 0.0 ? 1.0 : 0.0;
}

void ref_activation_gradient(activation_kind kind, int64_t count, const void *x, const void *dy,
                             void *dx)
{
    for (int64_t i = 0; i < count; i++) {
        ((double *)dx)[i] = slope_of(kind, ((const double *)x)[i]) * ((const double *)dy)[i];
    }
}

/* log sum exp of a row */
static double log_sum(int64_t classes, const double *row)
{
    double largest = -HUGE_VAL;
    double sum = 0.0;
    for (int64_t i = 0; i < classes; i++) {
        largest = fmax(largest, row[i]);
    }
    for (int64_t i = 0; i < classes; i++) {
        sum += exp(row[i] - largest);
    }
    return largest + log(sum);
}

void ref_divergence(int64_t rows, int64_t classes, const void *target, const void *logits,
                    double scale, void *gradient, double *divergence)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *t = (const double *)target + r * classes;
        const double *z = (const double *)logits + r * classes;
        const double t_sum = log_sum(classes, t);
        const double z_sum = log_sum(classes, z);
        double sum = 0.0;
        for (int64_t i = 0; i < classes; i++) {
            const double log_p = t[i] - t_sum;
            const double log_q = z[i] - z_sum;
            const double p = exp(log_p);
            sum += p > 0.0 ? p * (log_p - log_q) : 0.0;
            if (gradient != NULL) {
                ((double *)gradient)[r * classes + i] = scale * (exp(log_q) - p);
            }
        }
        divergence[r] = sum;
    }
}

void ref_descend(const descent *step, int64_t count, const void *gradient, void *first,
                 void *second, void *weight)
{
    double *m = first;
    double *v = second;
    for (int64_t i = 0; i < count; i++) {
        const double g = ((const double *)gradient)[i];
        double direction = g;
        if (m != NULL) {
            m[i] = step->first_decay * m[i] + (1.0 - step->first_decay) * g;
            direction = m[i];
        }
        v[i] = step->second_decay * v[i] + (1.0 - step->second_decay) * g * g;
        ((double *)weight)[i] -= step->rate * (direction / step->first_share) /
                                 (sqrt(v[i] / step->second_share) + step->epsilon);
    }
}
