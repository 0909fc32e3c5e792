/* What selectors are given of the statistics of a consumer. */
#ifndef GRAIL_REDUCE_INPUT_STATISTICS_H
#define GRAIL_REDUCE_INPUT_STATISTICS_H

#include "reduce/selector.h"
#include "stats/statistics.h"

/** What `needs`, a set of selector_need, asks for of one consumer's statistics, both parts added.
 * input_statistics_free frees, even after a failure. */
grail_status input_statistics_take(unsigned needs, const grail_statistics *fit,
                                   const grail_statistics *held,
                                   input_statistics *out) GRAIL_MUST_CHECK;
/** Frees inputs[count] and the array; NULL is allowed. */
void input_statistics_free(int count, input_statistics *inputs);

#endif
