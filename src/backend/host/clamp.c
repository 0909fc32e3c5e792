/* Values within bounds. */
#include "backend/host/host.h"

enum { GRAIN = 32768 };

static double value_at(matrix m, int64_t i)
{
    return m.type == GRAIL_DTYPE_F64 ? ((const double *)m.memory)[i]
                                     : (double)((const float *)m.memory)[i];
}

static void set_value(matrix m, int64_t i, double value)
{
    if (m.type == GRAIL_DTYPE_F64) {
        ((double *)m.memory)[i] = value;
    } else {
        ((float *)m.memory)[i] = (float)value;
    }
}

static void clamp_values(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const clamp_attributes *c = o->with.clamp;
    for (int64_t i = begin; i < end; i++) {
        const double x = value_at(o->m[0], i);
        const double within = x < c->low ? c->low : x > c->high ? c->high : x;
        set_value(o->m[1], i, within + c->offset);
    }
}

grail_status host_clamp(const operation *o)
{
    parallel_for(matrix_count(o->m[0]), GRAIN, clamp_values, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

static void clamp_slopes(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const clamp_attributes *c = o->with.clamp;
    for (int64_t i = begin; i < end; i++) {
        const double x = value_at(o->m[0], i);
        const bool outside = x < c->low || x > c->high;
        set_value(o->m[2], i, outside ? 0.0 : value_at(o->m[1], i));
    }
}

grail_status host_clamp_gradient(const operation *o)
{
    parallel_for(matrix_count(o->m[0]), GRAIN, clamp_slopes, (void *)(uintptr_t)o);
    return GRAIL_OK;
}
