/* When a step is taken with which rate, and on which samples. */
#ifndef GRAIL_HEAL_SCHEDULE_H
#define GRAIL_HEAL_SCHEDULE_H

#include "base/status.h"

#include <stdint.h>

/** The share of the largest rate at `progress` in 0 .. 1 of a training: it rises evenly over the
 * first tenth and falls along half a cosine to 0 (Loshchilov and Hutter 2017, with warm-up). */
double rate_share(double progress);

/** Writes the samples of one step to out[count]: `step` counts from 0, and every sample is taken
 * once before one is taken again, in an order drawn anew from the seed for each round. count must
 * not exceed sample_count. */
grail_status samples_of_step(uint64_t seed, int64_t step, int64_t sample_count,
                             const int64_t *samples, int64_t count, int64_t *out) GRAIL_MUST_CHECK;

#endif
