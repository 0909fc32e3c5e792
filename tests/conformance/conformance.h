/* What the conformance tests of the backends share: inputs that are exact in every element type,
 * outputs that start as NaN and are followed by a guard, and the tolerance of a backend. */
#ifndef GRAIL_TESTS_CONFORMANCE_H
#define GRAIL_TESTS_CONFORMANCE_H

#include "backend/backend.h"
#include "support/support.h"

#include <math.h>

/** Runs the body for every backend `b`. */
#define FOR_EACH_BACKEND(b) for (const backend *b = backend_at(0); b != NULL; b = backend_after(b))

/** The next backend after `b` in the registry, or NULL. */
const backend *backend_after(const backend *b);

/** Relative rounding of one element: 2^-24 or 2^-53. */
double rounding(const backend *b);

/** `count` normals in f32, with the given standard deviation; freed by memory_free, as all below.
 */
float *normals(int64_t count, uint64_t seed, double deviation);

/** The f32 values as elements of the backend. */
void *elements(const backend *b, int64_t count, const float *values);

/** `count` NaN elements and a guard behind them. */
void *blank(const backend *b, int64_t count);

/** The elements as f64; fails the test when the guard behind them was written. */
double *results(const backend *b, int64_t count, const void *outputs);

/** `count` doubles of the same value. */
double *doubles(int64_t count, double value);

/** |actual[i] - expected[i]| <= tolerance * scale[i] for all i; scale may be NULL for 1. NaN fails
 * unless expected. Names the backend, `what` and the index. */
void assert_all_near(const backend *b, const char *what, int64_t count, const double *actual,
                     const double *expected, const double *scale, double tolerance);

/** Root of the sum of the squares of a[0 .. count-1]. */
double norm_of(int64_t count, const double *a);

#endif
