/* Trials of several ranks: which fail where, and what of it counts. */
#include "solve/shared_trials.h"

#include "support/ranks.h"
#include "support/support.h"

#include <string.h>

static const double alphas[] = {1e-4, 1e-3, 1e-2, 1e-1};

enum { COUNT = sizeof alphas / sizeof alphas[0] };

typedef struct trying {
    double never;  /* an alpha whose trial fails */
    double walked; /* up to this one all are asked for, from the second on */
} trying;

static grail_status work(void *context, double alpha, trial_errors *errors)
{
    const trying *t = context;
    if (alpha == t->never) {
        return error_set(GRAIL_ERROR_NUMERIC, "no factor");
    }
    *errors = (trial_errors){.fit = alpha, .held = 2.0 * alpha};
    return GRAIL_OK;
}

/* The status, or 200 where an error is another one. */
static int walk(const grail_comm *comm, void *user)
{
    trying *t = user;
    shared_trials trials = {0};
    grail_status status = shared_trials_init(comm, alphas, COUNT, &trials);
    for (int i = 1; status == GRAIL_OK && i < COUNT && alphas[i] <= t->walked; i++) {
        trial_errors errors = {0};
        status = shared_trials_ask(&trials, alphas[i], work, t, &errors);
        if (status == GRAIL_OK && (errors.fit != alphas[i] || errors.held != 2.0 * alphas[i])) {
            return 200;
        }
    }
    shared_trials_fini(&trials);
    return (int)status;
}

TEST(a_trial_that_nobody_asked_for_may_fail)
{
    for (int size = 2; size <= 5; size++) {
        for (int failing = 0; failing < COUNT; failing++) {
            for (int last = 1; last < COUNT; last++) {
                trying t = {.never = alphas[failing], .walked = alphas[last]};
                const bool asked = failing > 0 && failing <= last;
                ranks_end_with(size, walk, &t, asked ? GRAIL_ERROR_NUMERIC : GRAIL_OK);
            }
        }
    }
}
