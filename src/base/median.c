#include "base/median.h"

#include <math.h>
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

/* P(B = hits) of B ~ Binomial(count, 1/2); in logarithms, since 2^-count may be too small. */
static double share_of(int64_t hits, int64_t count)
{
    const double n = (double)count;
    const double k = (double)hits;
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2.0));
}

bool median_interval(const double values[], int64_t count, double *low, double *high)
{
    int64_t k = 0;
    double below = share_of(0, count); /* P(B <= k) */
    while (below <= 0.025) {
        k++;
        below += share_of(k, count);
    }
    if (k > 0) {
        *low = values[k - 1];
        *high = values[count - k];
    }
    return k > 0;
}
