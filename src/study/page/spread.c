#include "study/page/spread.h"

#include "study/results/line.h"

spread spread_empty(void)
{
    return (spread){.mean = NOT_MEASURED, .least = NOT_MEASURED, .most = NOT_MEASURED};
}

void spread_add(spread *s, double value)
{
    if (isnan(value)) {
        return;
    }
    if (s->count == 0) {
        *s = (spread){.mean = value, .least = value, .most = value, .count = 1};
        return;
    }
    s->count++;
    s->mean += (value - s->mean) / s->count;
    s->least = fmin(s->least, value);
    s->most = fmax(s->most, value);
}
