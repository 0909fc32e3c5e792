#include "base/stop.h"

#include "base/clock.h"

#include <grail/machine.h>

/* Operations of small networks take less time than the question. */
static const double PERIOD = 0.1;

static _Thread_local grail_stop_observer observer;
static _Thread_local void *observer_user;
static _Thread_local double next; /* not before this second */

void grail_set_stop(grail_stop_observer asked, void *user)
{
    observer = asked;
    observer_user = user;
    next = 0.0;
}

grail_status stop_check(void)
{
    const double now = observer == NULL ? 0.0 : clock_seconds();
    if (observer == NULL || now < next) {
        return GRAIL_OK;
    }
    next = now + PERIOD;
    return observer(observer_user) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_CANCELLED, "cancelled, as the program asked");
}
