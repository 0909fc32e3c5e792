/* What callers of the public fits give: options, as the solver takes them, and statistics. */
#ifndef GRAIL_SOLVE_GIVEN_H
#define GRAIL_SOLVE_GIVEN_H

#include "solve/mixed_target.h"
#include "solve/ridge.h"

#include <grail/ridge.h>

/** No array is missing; bias_change is there exactly when a bias is fitted. */
grail_status given_options_check(const grail_compensate_options *options, const float *consumer,
                                 const float *weight, const double *bias_change,
                                 const grail_compensate_result *result) GRAIL_MUST_CHECK;

/** *judged is owned, and what the options borrow. */
grail_status given_options_solve(const grail_compensate_options *options, int64_t outputs,
                                 bool **judged, ridge_options *out) GRAIL_MUST_CHECK;

/** What a solver found, with the share of the statistics' own target. */
grail_compensate_result given_options_result(const ridge_result *found, double dense_share);

/* Statistics that a caller gave: checked, copied, and made ready for a fit or a selector. */

/** Both parts of the rows; without a held-out one it is empty. */
typedef struct given_sums {
    grail_statistics *fit, *held; /* owned */
    double dense_share;           /* of their own target in what they have as a target now */
} given_sums;

/** Both parts are there or none held out, have the same shape, and a target of as many outputs if
 * any. */
grail_status given_sums_check(const grail_statistics *fit, const grail_statistics *held,
                              int64_t outputs) GRAIL_MUST_CHECK;

/** After that check: copies sums of a consumer's input with `outputs` rows of the regression, and
 * gives them the target that is asked for, as far as `needs_target` says that one is looked at. A
 * mixed one takes consumer[outputs, H]. given_sums_fini frees, even after a failure. */
grail_status given_sums_take(const grail_statistics *fit, const grail_statistics *held,
                             grail_fit_target target, bool needs_target, int64_t outputs,
                             const float *consumer, given_sums *out) GRAIL_MUST_CHECK;
void given_sums_fini(given_sums *s); /* works on a zeroed one */

#endif
