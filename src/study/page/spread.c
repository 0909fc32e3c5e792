#include "study/page/spread.h"

#include "study/results/line.h"

#include <stdlib.h>

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

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

void sort_values(double *values, int count)
{
    qsort(values, (size_t)count, sizeof values[0], compare_doubles);
}
