/* Gradients of the reference backend: each as its formula in gradients.h, element by element. */
#include "backend/ref/reference.h"

#include <math.h>

static void add_to(double *sums, int64_t i, double value)
{
    if (sums != NULL) {
        sums[i] += value;
    }
}

grail_status ref_rms_norm_gradient(const operation *o)
{
    const double *weight = o->m[1].memory;
    const int64_t group = o->m[1].columns;
    for (int64_t start = 0; start < matrix_count(o->m[0]); start += group) {
        const double *x = (const double *)o->m[0].memory + start;
        const double *dy = (const double *)o->m[2].memory + start;
        double *dx = (double *)o->m[3].memory + start;
        const double squares = host_dot(group, x, x);
        double product = 0.0;
        for (int64_t i = 0; i < group; i++) {
            product += weight[i] * dy[i] * x[i];
        }
        const double factor = 1.0 / sqrt(squares / (double)group + o->with.epsilon);
        const double share = product * factor * factor * factor / (double)group;
        for (int64_t i = 0; i < group; i++) {
            add_to(o->m[4].memory, i, dy[i] * x[i] * factor);
            dx[i] = weight[i] * dy[i] * factor - x[i] * share;
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

grail_status ref_layer_norm_gradient(const operation *o)
{
    const matrix *m = o->m;
    for (int64_t r = 0; r < m[0].rows; r++) {
        layer_row(m[0].columns, o->with.epsilon, host_row(m[0], r), m[1].memory, host_row(m[2], r),
                  host_row(m[3], r), m[4].memory, m[5].memory);
    }
    return GRAIL_OK;
}

grail_status ref_batch_norm_gradient(const operation *o)
{
    const double *x = o->m[0].memory;
    const double *mean = o->m[1].memory;
    const double *variance = o->m[2].memory;
    const double *dy = o->m[4].memory;
    double *dx = o->m[5].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const int64_t c = i % o->m[0].columns;
        const double deviation = sqrt(variance[c] + o->with.epsilon);
        const double g = dy[i];
        add_to(o->m[6].memory, c, g * (x[i] - mean[c]) / deviation);
        add_to(o->m[7].memory, c, g);
        if (dx != NULL) {
            dx[i] = weight_at(o->m[3].memory, c) * g / deviation;
        }
    }
    return GRAIL_OK;
}

grail_status ref_unit_length_gradient(const operation *o)
{
    const double least = 1e-12;
    const int64_t width = o->m[0].columns;
    for (int64_t r = 0; r < o->m[0].rows; r++) {
        const double *x = host_row(o->m[0], r);
        const double *dy = host_row(o->m[1], r);
        double *dx = host_row(o->m[2], r);
        const double squares = host_dot(width, x, x);
        const double product = host_dot(width, x, dy);
        const double length = fmax(sqrt(squares), least);
        const double share = sqrt(squares) > least ? product / squares : 0.0;
        for (int64_t c = 0; c < width; c++) {
            dx[c] = (dy[c] - x[c] * share) / length;
        }
    }
    return GRAIL_OK;
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

grail_status ref_divergence(const operation *o)
{
    const int64_t classes = o->m[0].columns;
    double *gradient = o->m[2].memory;
    double *divergence = o->m[3].memory;
    for (int64_t r = 0; r < o->m[0].rows; r++) {
        const double *t = host_row(o->m[0], r);
        const double *z = host_row(o->m[1], r);
        const double t_sum = log_sum(classes, t);
        const double z_sum = log_sum(classes, z);
        double sum = 0.0;
        for (int64_t i = 0; i < classes; i++) {
            const double log_p = t[i] - t_sum;
            const double log_q = z[i] - z_sum;
            const double p = exp(log_p);
            sum += p > 0.0 ? p * (log_p - log_q) : 0.0;
            if (gradient != NULL) {
                gradient[r * classes + i] = o->with.alpha * (exp(log_q) - p);
            }
        }
        divergence[r] = sum;
    }
    return GRAIL_OK;
}

grail_status ref_descend(const operation *o)
{
    const descent *step = o->with.descent;
    const double *gradient = o->m[0].memory;
    double *m = o->m[1].memory;
    double *v = o->m[2].memory;
    double *weight = o->m[3].memory;
    for (int64_t i = 0; i < matrix_count(o->m[3]); i++) {
        const double g = gradient[i];
        double direction = g;
        if (m != NULL) {
            m[i] = step->first_decay * m[i] + (1.0 - step->first_decay) * g;
            direction = m[i];
        }
        v[i] = step->second_decay * v[i] + (1.0 - step->second_decay) * g * g;
        weight[i] -= step->rate * (direction / step->first_share) /
                     (sqrt(v[i] / step->second_share) + step->epsilon);
    }
    return GRAIL_OK;
}
