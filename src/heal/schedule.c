#include "heal/schedule.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>

double rate_share(double progress)
{
    const double warm_up = 0.1;
    if (progress >= 1.0) {
        return 0.0;
    }
    return progress < warm_up ? progress / warm_up
                              : 0.5 * (1.0 + cos(M_PI * (progress - warm_up) / (1.0 - warm_up)));
}

grail_status samples_of_step(uint64_t seed, int64_t step, int64_t sample_count,
                             const int64_t *samples, int64_t count, int64_t *out)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    int64_t round = -1;
    TRY(memory_new_unset(&order, (size_t)sample_count, sizeof order[0]));
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = step * count + i;
        if (place / sample_count != round) {
            random_state random;
            round = place / sample_count;
            random_seed(&random, seed, (uint64_t)round);
            random_permutation(&random, sample_count, order);
        }
        out[i] = samples[order[place % sample_count]];
    }
out:
    memory_free(order);
    return status;
}
