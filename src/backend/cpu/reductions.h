/* Sums and maxima over the elements of a row, in an order that depends on the count alone, and sums
 * over rows. */
#ifndef GRAIL_BACKEND_CPU_REDUCTIONS_H
#define GRAIL_BACKEND_CPU_REDUCTIONS_H

#include <stdint.h>

/** max(start, x[0 .. count-1]) */
float row_maximum(int64_t count, const float *x, float start);

/* f64 sums */

/** sum_i x[i] */
double row_sum(int64_t count, const float *x);
/** sum_i (x[i] - shift)^2 */
double squares_of_row(int64_t count, const float *x, double shift);
/** sum_i a[i] b[i] */
double row_dot(int64_t count, const float *a, const float *b);
/** sum_i weight[i] a[i] b[i] */
double row_dot_weighted(int64_t count, const float *weight, const float *a, const float *b);
/** sum_i exp(x[i] - shift), of f32 exponentials */
double row_exponentials(int64_t count, const float *x, float shift);

/** sums[i] += x[i], and a[i] b[i] */
void accumulate_row(int64_t count, const float *x, double *sums);
void accumulate_products(int64_t count, const float *a, const float *b, double *sums);

#endif
