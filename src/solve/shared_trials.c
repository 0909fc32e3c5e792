#include "solve/shared_trials.h"

#include "base/memory.h"

#include <stdlib.h>

static int by_alpha(const void *a, const void *b)
{
    const double left = ((const trial *)a)->alpha;
    const double right = ((const trial *)b)->alpha;
    return (left > right) - (left < right);
}

grail_status shared_trials_init(const grail_comm *comm, const double *alphas, int count,
                                shared_trials *out)
{
    *out = (shared_trials){.comm = comm};
    CHECK(memory_new(&out->of, (size_t)count, sizeof out->of[0]));
    out->count = count;
    for (int i = 0; i < count; i++) {
        out->of[i].alpha = alphas[i];
    }
    qsort(out->of, (size_t)count, sizeof out->of[0], by_alpha);
    return GRAIL_OK;
}

void shared_trials_fini(shared_trials *t)
{
    memory_free(t->of);
    *t = (shared_trials){0};
}

/* Which trial a rank takes beside the one that is asked for: of those not known yet the nearest,
 * the larger one first; -1 where there are not as many. */
static int place_for_rank(const shared_trials *t, int asked, int rank)
{
    int left = rank;
    for (int distance = 0; distance < t->count; distance++) {
        const int places[] = {asked + distance, asked - distance};
        for (int side = 0; side < (distance == 0 ? 1 : 2); side++) {
            const int place = places[side];
            if (place >= 0 && place < t->count && !t->of[place].known && left-- == 0) {
                return place;
            }
        }
    }
    return -1;
}

/* Rank 0 tries the one that is asked for. What fails elsewhere was not asked for and may never be,
 * so it is as if it had not been tried. */
static grail_status try_own(shared_trials *t, int asked, trial_work work, void *context)
{
    const int place = place_for_rank(t, asked, t->comm->rank);
    t->failed = false;
    if (place >= 0) {
        const grail_status status = work(context, t->of[place].alpha, &t->of[place].errors);
        t->failed = status != GRAIL_OK;
        CHECK(place == asked ? status : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* From the last rank on: that a later candidate becomes known moves no earlier one
 * (place_for_rank). */
static grail_status gather(shared_trials *t, int asked)
{
    for (int rank = t->comm->size; rank-- > 0;) {
        const int place = place_for_rank(t, asked, rank);
        if (place >= 0) {
            trial told = t->of[place];
            told.known = !t->failed;
            CHECK(comm_broadcast_next(t->comm, rank, &told, sizeof told));
            t->of[place] = told;
        }
    }
    return GRAIL_OK;
}

grail_status shared_trials_ask(shared_trials *t, double alpha, trial_work work, void *context,
                               trial_errors *out)
{
    int asked = 0;
    while (asked < t->count - 1 && t->of[asked].alpha != alpha) {
        asked++;
    }
    if (!t->of[asked].known) {
        CHECK(comm_settle(t->comm, try_own(t, asked, work, context)));
        CHECK(gather(t, asked));
    }
    *out = t->of[asked].errors;
    return GRAIL_OK;
}
