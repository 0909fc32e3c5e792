/* Arrays of f64 sums: symmetric matrices stored as one triangle, and the search for NaN. */
#ifndef GRAIL_STATS_SUMS_H
#define GRAIL_STATS_SUMS_H

#include <stdint.h>

/** Index of the first NaN or infinity, or -1. */
int64_t sums_find_non_finite(int64_t count, const double *values);

/** into += values */
void sums_add(int64_t count, double *into, const double *values);

/** Index i * n + j of the first NaN or infinity in the lower triangle of A[n, n], or -1. */
int64_t symmetric_find_non_finite(int64_t n, const double *a);

/** Lower triangle of INTO[n, n] += that of A[n, n]. */
void symmetric_add_lower(int64_t n, double *into, const double *a);

/** Copies the strict lower triangle of the row-major A[n, n] onto the strict upper one. */
void symmetric_fill_upper(int64_t n, double *a);

/** Copies the strict upper triangle onto the strict lower one. */
void symmetric_fill_lower(int64_t n, double *a);

#endif
