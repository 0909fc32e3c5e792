/* The median of numbers. */
#ifndef GRAIL_BASE_MEDIAN_H
#define GRAIL_BASE_MEDIAN_H

#include <stdint.h>

/** Sorts values[count] from the smallest; none may be NaN. */
void median_sort(double values[], int64_t count);

/** The median of values[count], count > 0, sorted. */
double median_of_sorted(const double values[], int64_t count);

#endif
