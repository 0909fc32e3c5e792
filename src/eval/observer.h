/* Telling the observer of a measurement how far it is. */
#ifndef GRAIL_EVAL_OBSERVER_H
#define GRAIL_EVAL_OBSERVER_H

#include "base/status.h"

#include <grail/eval.h>

/** GRAIL_ERROR_CANCELLED where the observer, which may be NULL, wants no more; `what` is counted:
 * "windows". */
grail_status observer_tell(grail_eval_observer observer, void *user, const grail_eval_progress *now,
                           const char *what) GRAIL_MUST_CHECK;

#endif
