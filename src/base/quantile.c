#include "base/quantile.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

grail_status quantile_of(double share, int64_t count, const double *values, double *out)
{
    grail_status status = GRAIL_OK;
    double *sorted = NULL;
    *out = 0.0;
    if (count == 0) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&sorted, (size_t)count, sizeof sorted[0]));
    memcpy(sorted, values, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], compare);
    *out = sorted[(int64_t)(share * (double)count)];
out:
    memory_free(sorted);
    return status;
}
