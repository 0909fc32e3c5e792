/* The candidates of a cross-validation, which ranks try at the same time. Each is asked for by its
 * alpha, as by one rank alone; those that will be asked for next are tried beside it, one by each
 * rank. The errors are those that one rank would have found, and so is what is chosen by them. */
#ifndef GRAIL_SOLVE_SHARED_TRIALS_H
#define GRAIL_SOLVE_SHARED_TRIALS_H

#include "comm/comm.h"

/** Squared errors of a fit on both parts of the rows. */
typedef struct trial_errors {
    double fit, held;
} trial_errors;

typedef struct trial {
    double alpha;
    trial_errors errors; /* of a `known` one */
    bool known;
} trial;

typedef struct shared_trials {
    const grail_comm *comm;
    trial *of;   /* [count], alpha ascending; owned */
    int count;   /* 0: they are not shared out */
    bool failed; /* what this rank tried last */
} shared_trials;

/** Copies alphas[count]. shared_trials_fini frees; it works on a zeroed one. */
grail_status shared_trials_init(const grail_comm *comm, const double *alphas, int count,
                                shared_trials *out) GRAIL_MUST_CHECK;
void shared_trials_fini(shared_trials *t);

typedef grail_status (*trial_work)(void *context, double alpha, trial_errors *errors);

/** The errors of one of the alphas; all ranks ask for the same. `work` tries those of this rank. */
grail_status shared_trials_ask(shared_trials *t, double alpha, trial_work work, void *context,
                               trial_errors *out) GRAIL_MUST_CHECK;

#endif
