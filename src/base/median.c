#include "base/median.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

void median_sort(double values[], int64_t count)
{
    qsort(values, (size_t)count, sizeof values[0], compare);
}

double median_of_sorted(const double values[], int64_t count)
{
    return (values[(count - 1) / 2] + values[count / 2]) / 2.0;
}
