#include "pace.h"

#include <math.h>

pace pace_start(double now)
{
    return (pace){.said = now, .share = (double)INFINITY};
}

void pace_note(pace *p, double now)
{
    p->said = now;
}

bool pace_is_due(pace *p, double now, double interval)
{
    const bool is_due = now - p->said >= interval;
    if (is_due) {
        pace_note(p, now);
    }
    return is_due;
}

double pace_left(pace *p, double now, double share)
{
    if (isnan(share)) {
        return (double)NAN;
    }
    if (share < p->share) {
        p->begun = now;
        p->before = share;
    }
    p->share = share < 1.0 ? share : (double)INFINITY;
    const double gained = share - p->before;
    return share < 1.0 && gained > 0.0 ? (now - p->begun) / gained * (1.0 - share) : (double)NAN;
}
