#include "eval/observer.h"

grail_status observer_tell(grail_eval_observer observer, void *user, const grail_eval_progress *now,
                           const char *what)
{
    return observer == NULL || observer(user, now) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld %s",
                           (long long)now->done, (long long)now->total, what);
}
