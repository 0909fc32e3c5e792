#include "base/random.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

static uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

void random_seed(random_state *r, uint64_t seed, uint64_t sequence)
{
    uint64_t state = seed;
    state = splitmix_next(&state) ^ (sequence * 0xD1342543DE82EF95U);
    for (int i = 0; i < 4; i++) {
        r->s[i] = splitmix_next(&state);
    }
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t random_next(random_state *r)
{
    uint64_t *s = r->s;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

int64_t random_below(random_state *r, int64_t bound)
{
    const uint64_t n = (uint64_t)bound;
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* a multiple of n: no bias below it */
    uint64_t value = 0;
    do {
        value = random_next(r);
    } while (value >= limit);
    return (int64_t)(value % n);
}

double random_uniform(random_state *r)
{
    return (double)(random_next(r) >> 11) * 0x1.0p-53;
}

double random_normal(random_state *r)
{
    const double two_pi = 6.283185307179586477;
    const double u = 1.0 - random_uniform(r); /* in (0, 1]: the logarithm is finite */
    const double v = random_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(two_pi * v);
}

void random_permutation(random_state *r, int64_t count, int64_t values[])
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = i;
    }
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = random_below(r, i + 1);
        const int64_t swap = values[i];
        values[i] = values[j];
        values[j] = swap;
    }
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

grail_status random_sample(uint64_t seed, int64_t total, int64_t count, int64_t **out)
{
    int64_t *order = NULL;
    random_state random;
    CHECK(memory_new_unset(&order, (size_t)total, sizeof order[0]));
    random_seed(&random, seed, 0);
    random_permutation(&random, total, order);
    qsort(order, (size_t)count, sizeof order[0], compare);
    *out = order;
    return GRAIL_OK;
}
