#include "observed.h"

#include "plain_algebra.h"
#include "stats/constant_features.h"
#include "support/matrices.h"

#include <math.h>

observed observe(int64_t rows, int64_t width, int64_t outputs, int64_t taps, uint64_t seed)
{
    observed o = {.rows = rows, .width = width, .outputs = outputs};
    o.x = plain_normal(rows * width, seed);
    o.w = plain_normal(outputs * width, seed + 1);
    assert_ok(memory_new(&o.stored, (size_t)(outputs * width), sizeof *o.stored));
    for (int64_t i = 0; i < rows * width; i++) { /* every other feature resembles its neighbour */
        const int64_t j = i % width;
        o.x[i] = j % 2 == 1 ? 0.4 * o.x[i] + o.x[i - 1] : o.x[i] + 0.6 * o.x[i - j];
    }
    for (int64_t i = 0; i < rows * width; i++) { /* of different sizes and means */
        const int64_t j = i % width;
        o.x[i] = o.x[i] * (0.5 + 0.3 * (double)(j % 7)) + 0.4 * (double)(j % 4);
    }
    for (int64_t i = 0; i < outputs * width; i++) {
        const int64_t row = i / width;
        const int64_t place = (row / taps * width + i % width) * taps + row % taps;
        o.stored[place] = (float)o.w[i];
        o.w[i] = (double)o.stored[place];
    }
    return o;
}

/* X W^T of the dense weights, with changed weights and a mean. */
void observed_add_target(observed *o, uint64_t seed)
{
    OWNED(double) *noise = plain_normal(o->outputs * o->width, seed);
    assert_ok(memory_new(&o->y, (size_t)(o->rows * o->outputs), sizeof *o->y));
    for (int64_t i = 0; i < o->rows * o->outputs; i++) {
        const int64_t row = i % o->outputs;
        o->y[i] = 3.0 + (double)row;
        for (int64_t j = 0; j < o->width; j++) {
            const double w = o->w[row * o->width + j] + 0.8 * noise[row * o->width + j];
            o->y[i] += o->x[i / o->outputs * o->width + j] * w;
        }
    }
}

void observed_free(observed *o)
{
    memory_free(o->x);
    memory_free(o->y);
    memory_free(o->w);
    memory_free(o->stored);
    *o = (observed){0};
}

/* means[columns] of values[rows, columns]; memory_free. */
static double *column_means(int64_t rows, int64_t columns, const double *values)
{
    double *means = NULL;
    assert_ok(memory_new(&means, (size_t)columns, sizeof *means));
    for (int64_t i = 0; i < rows * columns; i++) {
        means[i % columns] += values[i] / (double)rows;
    }
    return means;
}

void give_input(backend *b, const observed *o, int k, hand_site *f)
{
    const int64_t n = o->width;
    double *gram = plain_gram(o->rows, n, 0.0, o->x);
    for (int64_t i = 0; i < n * n; i++) {
        gram[i] = i % n > i / n ? (double)NAN : gram[i];
    }
    input_statistics *in = &f->inputs[k];
    *in = (input_statistics){
        .width = n, .weight = (double)o->rows, .rounding = sums_rounding(b, o->rows)};
    in->gram = support_matrix(b, n, n, gram);
    in->means = column_means(o->rows, n, o->x);
    if (o->y != NULL) {
        OWNED(double) *cross = NULL;
        assert_ok(memory_new(&cross, (size_t)(o->outputs * n), sizeof *cross));
        plain_add_product(o->outputs, n, o->rows, o->y, o->x, cross);
        in->cross = support_matrix(b, o->outputs, n, cross);
        in->target_means = column_means(o->rows, o->outputs, o->y);
    }
    f->view.backend = b;
    f->view.input_count = k + 1;
    memory_free(gram);
}

void forget_inputs(hand_site *f)
{
    for (int k = 0; k < f->view.input_count; k++) {
        input_statistics *in = &f->inputs[k];
        matrix_free(&in->gram);
        matrix_free(&in->cross);
        memory_free((double *)(uintptr_t)in->means);
        memory_free((double *)(uintptr_t)in->target_means);
        *in = (input_statistics){0};
    }
}

/* The values less their columns' means when asked; memory_free. */
static double *moved(int64_t rows, int64_t columns, const double *values, bool centred)
{
    double *copy = plain_copy(rows * columns, values);
    OWNED(double) *means = column_means(rows, columns, values);
    for (int64_t i = 0; centred && i < rows * columns; i++) {
        copy[i] -= means[i % columns];
    }
    return copy;
}

double *observed_gram(const observed *o, bool centred, double shift)
{
    OWNED(double) *x = moved(o->rows, o->width, o->x, centred);
    double *gram = plain_gram(o->rows, o->width, shift, x);
    return gram;
}

double observed_lambda(const observed *o, bool centred, double damping)
{
    OWNED(double) *gram = observed_gram(o, centred, 0.0);
    double sum = 0.0;
    for (int64_t i = 0; i < o->width; i++) {
        sum += gram[i * o->width + i];
    }
    return damping * sum / (double)o->width;
}

/* The target of every row; memory_free. */
static double *target_of(const observed *o)
{
    if (o->y != NULL) {
        return plain_copy(o->rows * o->outputs, o->y);
    }
    double *y = NULL;
    assert_ok(memory_new(&y, (size_t)(o->rows * o->outputs), sizeof *y));
    for (int64_t i = 0; i < o->rows * o->outputs; i++) {
        for (int64_t j = 0; j < o->width; j++) {
            y[i] += o->x[i / o->outputs * o->width + j] * o->w[i % o->outputs * o->width + j];
        }
    }
    return y;
}

/* fitted[O, H] = (Y^T X + lambda W)[:, P] (X^T X + lambda I)[P, P]^-1, 0 elsewhere. */
static void fit_kept(const observed *o, double lambda, const bool *kept, const double *x,
                     const double *y, double *fitted)
{
    OWNED(double) *h = plain_gram(o->rows, o->width, lambda, x);
    OWNED(double) *right = plain_copy(o->outputs * o->width, o->w);
    for (int64_t i = 0; i < o->outputs * o->width; i++) {
        right[i] *= lambda;
    }
    plain_add_product(o->outputs, o->width, o->rows, y, x, right);
    for (int64_t i = 0; i < o->width * o->width; i++) { /* removed features are cut off */
        if (!kept[i / o->width] || !kept[i % o->width]) {
            h[i] = i / o->width == i % o->width ? 1.0 : 0.0;
        }
    }
    plain_invert(o->width, h);
    for (int64_t i = 0; i < o->outputs * o->width; i++) {
        fitted[i] = 0.0;
        for (int64_t j = 0; kept[i % o->width] && j < o->width; j++) {
            fitted[i] +=
                kept[j] ? right[i / o->width * o->width + j] * h[j * o->width + i % o->width] : 0.0;
        }
    }
}

double observed_loss(const observed *o, bool centred, double lambda, const bool *kept)
{
    OWNED(double) *fitted = NULL;
    OWNED(double) *target = target_of(o);
    OWNED(double) *x = moved(o->rows, o->width, o->x, centred);
    OWNED(double) *y = moved(o->rows, o->outputs, target, centred);
    double loss = 0.0;
    assert_ok(memory_new(&fitted, (size_t)(o->outputs * o->width), sizeof *fitted));
    fit_kept(o, lambda, kept, x, y, fitted);
    for (int64_t i = 0; i < o->rows * o->outputs; i++) {
        double left = y[i];
        for (int64_t j = 0; j < o->width; j++) {
            left -= x[i / o->outputs * o->width + j] * fitted[i % o->outputs * o->width + j];
        }
        loss += left * left;
    }
    for (int64_t i = 0; i < o->outputs * o->width; i++) {
        loss += lambda * (fitted[i] - o->w[i]) * (fitted[i] - o->w[i]);
    }
    return loss;
}
