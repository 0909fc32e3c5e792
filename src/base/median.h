/* The middle of some numbers. */
#ifndef GRAIL_BASE_MEDIAN_H
#define GRAIL_BASE_MEDIAN_H

#include "base/status.h"

#include <stdint.h>

/** *out = the upper median of values[count]; 0 where there are none. */
grail_status median_of(int64_t count, const double *values, double *out) GRAIL_MUST_CHECK;

#endif
