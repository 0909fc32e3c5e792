/* Slopes of a loss by finite differences, the oracle of gradients: the loss is sum(dy * f(inputs))
 * with the forward operation f of the reference backend, in f64. */
#ifndef GRAIL_TESTS_SLOPES_H
#define GRAIL_TESTS_SLOPES_H

#include "backend/operations.h"
#include "conformance/conformance.h"

/** Y = f(inputs); `context` is what else f takes. */
typedef void (*slope_function)(const void *context, const matrix *inputs, matrix y);

enum { SLOPE_INPUTS = 3 };

typedef struct slopes {
    backend *reference;
    slope_function f;
    const void *context;
    matrix inputs[SLOPE_INPUTS]; /* of the reference; owned */
    matrix y;
    double *dy;
} slopes;

/** The inputs that have values; the others are missing. */
typedef struct slope_input {
    int64_t rows, columns;
    const float *values; /* NULL: missing */
} slope_input;

slopes slopes_new(slope_function f, const void *context, const slope_input inputs[SLOPE_INPUTS],
                  int64_t rows, int64_t columns, const float *dy);
void slopes_free(slopes *s);

/** gradient = before + the slopes of one input, at up to some hundred of its elements. The
 * tolerance is relative to the largest of the slopes, and of what was there before. */
void assert_slopes(const char *what, slopes *s, int input, double before, matrix gradient,
                   double tolerance);

/** 1e-6 for the reference, `factor` roundings for the others. */
double slope_tolerance(const backend *b, double factor);

#endif
