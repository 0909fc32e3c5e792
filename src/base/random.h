/* Seeded random numbers: xoshiro256** started by splitmix64. The same seed gives the same numbers
 * on every machine; `sequence` selects one of many independent sequences of a seed. */
#ifndef GRAIL_BASE_RANDOM_H
#define GRAIL_BASE_RANDOM_H

#include "base/status.h"

#include <stdint.h>

typedef struct random_state {
    uint64_t s[4];
} random_state;

void random_seed(random_state *r, uint64_t seed, uint64_t sequence);
uint64_t random_next(random_state *r);

/** Uniform in 0 .. bound-1 without modulo bias; bound > 0. */
int64_t random_below(random_state *r, int64_t bound);

/** Uniform in [0, 1), 53 bits. */
double random_uniform(random_state *r);

/** Standard normal (Box-Muller). */
double random_normal(random_state *r);

/** Fills values[0..count-1] with a uniform permutation of 0..count-1 (Fisher-Yates). */
void random_permutation(random_state *r, int64_t count, int64_t values[]);

/** Draws `count` of 0..total-1 without replacement, by sequence 0 of the seed, in ascending order.
 * *out is owned. */
grail_status random_sample(uint64_t seed, int64_t total, int64_t count,
                           int64_t **out) GRAIL_MUST_CHECK;

#endif
