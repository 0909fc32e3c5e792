/* Options of the public fits: checked, and as the solver takes them. */
#ifndef GRAIL_SOLVE_GIVEN_OPTIONS_H
#define GRAIL_SOLVE_GIVEN_OPTIONS_H

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

#endif
