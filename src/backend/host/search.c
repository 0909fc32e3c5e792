/* The search for NaN and infinity. */
#include "backend/host/kernels.h"

#include <math.h>

static int64_t find_in_row(grail_dtype type, int64_t count, const void *row)
{
    if (type == GRAIL_DTYPE_F32) {
        return find_non_finite(row, count);
    }
    const double *values = row;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return i;
        }
    }
    return -1;
}

grail_status host_find_non_finite(backend *b, const operation *o)
{
    const host_kernels *kernels = b->kind->kernels;
    const matrix x = o->m[0];
    *o->with.index = -1;
    if (!o->with.lower && x.type == b->kind->type && matrix_is_packed(x)) {
        *o->with.index = kernels->find_non_finite(matrix_count(x), x.memory);
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < x.rows; r++) {
        const int64_t count = o->with.lower ? r + 1 : x.columns;
        const int64_t found = find_in_row(x.type, count, host_row(x, r));
        if (found >= 0) {
            *o->with.index = r * x.columns + found;
            return GRAIL_OK;
        }
    }
    return GRAIL_OK;
}
