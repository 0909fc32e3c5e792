#include "base/profile.h"

#include "base/clock.h"

#include <stddef.h>

static _Thread_local profile *current;

const char *profile_name(profile_kind kind)
{
    static const char *const names[PROFILE_KINDS] = {
        [PROFILE_REST] = "rest",
        [PROFILE_PRODUCTS] = "products",
        [PROFILE_ATTENTION] = "attention",
        [PROFILE_ELEMENTWISE] = "elementwise",
        [PROFILE_STATISTICS] = "statistics",
        [PROFILE_SELECTION] = "selection",
        [PROFILE_FITS] = "fits",
        [PROFILE_WEIGHTS] = "weights",
        [PROFILE_WAITING] = "waiting",
        [PROFILE_FILES] = "files",
    };
    return names[kind];
}

void profile_start(profile *p)
{
    *p = (profile){.now = PROFILE_REST, .since = clock_seconds()};
}

profile *profile_use(profile *p)
{
    profile *before = current;
    current = p;
    return before;
}

void profile_read(profile *p)
{
    const double now = clock_seconds();
    p->seconds[p->now] += now - p->since;
    p->since = now;
}

profile_kind profile_enter(profile_kind kind)
{
    if (current == NULL) {
        return kind;
    }
    const profile_kind before = current->now;
    if (kind != before) {
        profile_read(current);
        current->now = kind;
    }
    return before;
}

bool profile_is_on(void)
{
    return current != NULL;
}

void profile_add_operations(double count)
{
    current->operations[current->now] += count;
}
