/* The search for NaN and infinity. */
#include "backend/host/host.h"

#include "tensor/tensor.h"

#include <math.h>

grail_status host_find_non_finite(const operation *o)
{
    const matrix x = o->m[0];
    *o->with.index = -1;
    if (!o->with.lower && matrix_is_packed(x)) {
        *o->with.index = find_non_finite_stored(x.type, x.memory, matrix_count(x));
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < x.rows; r++) {
        const int64_t count = o->with.lower ? r + 1 : x.columns;
        const int64_t found = find_non_finite_stored(x.type, host_row(x, r), count);
        if (found >= 0) {
            *o->with.index = r * x.columns + found;
            return GRAIL_OK;
        }
    }
    return GRAIL_OK;
}

grail_status host_mark_non_finite(const operation *o)
{
    int64_t index = -1;
    operation found = *o;
    double *status = o->m[1].memory;
    found.with.index = &index;
    CHECK(host_find_non_finite(&found));
    *status = index < 0 ? *status : fmax(*status, o->with.alpha - (double)index);
    return GRAIL_OK;
}
