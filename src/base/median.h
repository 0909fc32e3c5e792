/* The median of numbers, and the interval of the median that they are drawn from. */
#ifndef GRAIL_BASE_MEDIAN_H
#define GRAIL_BASE_MEDIAN_H

#include <stdbool.h>
#include <stdint.h>

/** Fewer numbers have no 95 % interval: 2 * 2^-5 > 5 %. */
enum { MEDIAN_INTERVAL_LEAST = 6 };

/** Sorts values[count] from the smallest; none may be NaN. */
void median_sort(double values[], int64_t count);

/** The median of values[count], count > 0, sorted. */
double median_of_sorted(const double values[], int64_t count);

/**
 * The 95 % interval of the median of what values[count], sorted, are independent samples of, for
 * any distribution: from the k-th smallest to the k-th largest, with the largest k for which P(B <
 * k) <= 0.025, where B ~ Binomial(count, 1/2) is how many samples lie below the median. False where
 * there is no such k. Source: Conover, Practical Nonparametric Statistics, 3.2.
 */
bool median_interval(const double values[], int64_t count, double *low, double *high);

#endif
