/* The search for NaN and infinity. */
#include "backend/host/host.h"

#include "base/parallel.h"

#include <math.h>
#include <stdatomic.h>

typedef struct search {
    const float *x;
    _Atomic int64_t found; /* least index so far, INT64_MAX for none */
} search;

static void search_piece(int64_t begin, int64_t end, void *context)
{
    search *s = context;
    const int64_t index = find_non_finite(s->x + begin, end - begin);
    int64_t found = atomic_load(&s->found);
    while (index >= 0 && begin + index < found &&
           !atomic_compare_exchange_weak(&s->found, &found, begin + index)) {
    }
}

static int64_t find_in_floats(int64_t count, const float *x)
{
    search s = {.x = x, .found = INT64_MAX};
    parallel_for(count, host_rows_grain(1), search_piece, &s);
    return s.found == INT64_MAX ? -1 : s.found;
}

static int64_t find_in_doubles(int64_t count, const double *x)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            return i;
        }
    }
    return -1;
}

static int64_t find(grail_dtype type, int64_t count, const void *x)
{
    return type == GRAIL_DTYPE_F32 ? find_in_floats(count, x) : find_in_doubles(count, x);
}

grail_status host_find_non_finite(const operation *o)
{
    const matrix x = o->m[0];
    *o->with.index = -1;
    if (!o->with.lower && matrix_is_packed(x)) {
        *o->with.index = find(x.type, matrix_count(x), x.memory);
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < x.rows; r++) {
        const int64_t count = o->with.lower ? r + 1 : x.columns;
        const int64_t found = find(x.type, count, host_row(x, r));
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
