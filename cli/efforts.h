/* Efforts and times: options that choose others. */
#ifndef GRAIL_CLI_EFFORTS_H
#define GRAIL_CLI_EFFORTS_H

#include "shared_options.h"

#include <grail/schedule.h>

/** Rows of a command's table. */
#define EFFORT_OPTIONS                                                                             \
    FIELDS_OF(GROUP_EFFORT, grail_effort_option_at, GRAIL_SUBJECT_EFFORT, asked.effort)

/** Sets what --effort and --time decide in asked.compress and asked.plan, and says on stderr what
 * that is and how the time is divided. `kinds` of sites are cut for a limit, which
 * limit_options_read has read. The rest of the command uses what the schedule, *out, owns:
 * grail_schedule_free. Returns an exit code. */
int efforts_apply(grail_schedule_subject subject, const char *kinds, grail_schedule **out);

/** What was chosen, and how the time was divided; null where neither was asked for. */
json_t *efforts_json(const grail_schedule *s);

/** Forgets what an interrupted run would have needed, when its result is there. Returns an exit
 * code. */
int efforts_finish(grail_schedule *s);

#endif
