/* Some numbers in the order of their size. */
#ifndef GRAIL_BASE_QUANTILE_H
#define GRAIL_BASE_QUANTILE_H

#include "base/status.h"

#include <stdint.h>

/** *out = the one of values[count] that so large a share of them, below 1, is below; of 0.5 the
 * upper median. 0 where there are none. */
grail_status quantile_of(double share, int64_t count, const double *values,
                         double *out) GRAIL_MUST_CHECK;

#endif
