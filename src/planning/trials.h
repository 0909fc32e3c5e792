/* What trials of a plan tell, and when they end. */
#ifndef GRAIL_PLANNING_TRIALS_H
#define GRAIL_PLANNING_TRIALS_H

#include <grail/plan.h>

#include <stdbool.h>

/** Tells the observer of `options` of a trial. *stopped becomes true where it, or the seconds of a
 * search that began at `began`, say on rank 0 that no other trial may begin. */
grail_status trials_tell(const grail_plan_options *options, double began,
                         const grail_plan_trial *trial, bool *stopped) GRAIL_MUST_CHECK;

#endif
