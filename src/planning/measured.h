/* What a schedule keeps beside its output: its choices, and what plans for it have measured, so
 * that a run that was killed goes on with the next trial. */
#ifndef GRAIL_PLANNING_MEASURED_H
#define GRAIL_PLANNING_MEASURED_H

#include "base/kept_numbers.h"
#include "planning/choosing.h"

/** Replaces the file by what is kept now. */
grail_status schedule_write(const grail_schedule *schedule) GRAIL_MUST_CHECK;

/** Adds to *to what was measured before, under the keys that it had there. */
grail_status schedule_give_measured(const grail_schedule *schedule,
                                    kept_numbers *to) GRAIL_MUST_CHECK;

/** A number_keeper: keeps numbers of the grail_schedule `user`. */
grail_status schedule_keep_measured(void *user, const char *key, const double *numbers,
                                    size_t count) GRAIL_MUST_CHECK;

#endif
