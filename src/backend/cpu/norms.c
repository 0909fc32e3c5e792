/* Norms in f32: RMS, batch, layer, unit length. Means and variances are f64 sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <math.h>

/* y = weight * ((x - shift) * factor) + bias */
CPU_CLONES static void scale_row(int64_t count, const float *x, float shift, float factor,
                                 const float *weight, const float *bias, float *y)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = (x[i] - shift) * factor;
    }
    for (int64_t i = 0; weight != NULL && i < count; i++) {
        y[i] *= weight[i];
    }
    for (int64_t i = 0; bias != NULL && i < count; i++) {
        y[i] += bias[i];
    }
}

static void rms_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t group = o->m[1].columns;
    const int64_t width = o->m[0].columns;
    const float *values = o->m[0].memory;
    float *made = o->m[2].memory;
    for (int64_t i = begin * width; i < end * width; i += group) {
        const double mean = squares_of_row(group, values + i, 0.0) / (double)group;
        const float factor = (float)(1.0 / sqrt(mean + o->with.epsilon));
        scale_row(group, values + i, 0.0F, factor, o->m[1].memory, NULL, made + i);
    }
}

grail_status cpu_rms_norm(const operation *o)
{
    return host_over_rows(o, o->m[0], rms_rows);
}

static void layer_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        const float *x = host_row(o->m[0], r);
        const double mean = row_sum(width, x) / (double)width;
        const double variance = squares_of_row(width, x, mean) / (double)width;
        const float factor = (float)(1.0 / sqrt(variance + o->with.epsilon));
        scale_row(width, x, (float)mean, factor, o->m[1].memory, o->m[2].memory,
                  host_row(o->m[3], r));
    }
}

grail_status cpu_layer_norm(const operation *o)
{
    return host_over_rows(o, o->m[0], layer_rows);
}

static void unit_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        const float *x = host_row(o->m[0], r);
        const double length = fmax(sqrt(squares_of_row(width, x, 0.0)), 1e-12);
        scale_row(width, x, 0.0F, (float)(1.0 / length), NULL, NULL, host_row(o->m[1], r));
    }
}

grail_status cpu_unit_length(const operation *o)
{
    return host_over_rows(o, o->m[0], unit_rows);
}

/* y = (x - mean) * factor + bias over rows that lie `stride` apart. */
CPU_CLONES static void scale_columns(int64_t rows, int64_t count, int64_t stride, const float *x,
                                     const float *mean, const float *factor, const float *bias,
                                     float *y)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < count; c++) {
            y[r * stride + c] = (x[r * stride + c] - mean[c]) * factor[c] + bias[c];
        }
    }
}

static void batch_rows(int64_t begin, int64_t end, void *context)
{
    enum { COLUMNS = 512 };
    const operation *o = context;
    const int64_t width = o->m[0].columns;
    const float *mean = o->m[1].memory;
    const float *variance = o->m[2].memory;
    const float *weight = o->m[3].memory;
    const float *shift = o->m[4].memory;
    float factor[COLUMNS];
    float bias[COLUMNS];
    for (int64_t c0 = 0; c0 < width; c0 += COLUMNS) {
        const int64_t count = width - c0 < COLUMNS ? width - c0 : COLUMNS;
        for (int64_t c = 0; c < count; c++) {
            const double deviation = sqrt((double)variance[c0 + c] + o->with.epsilon);
            factor[c] = (float)((weight == NULL ? 1.0 : (double)weight[c0 + c]) / deviation);
            bias[c] = shift == NULL ? 0.0F : shift[c0 + c];
        }
        const int64_t offset = begin * width + c0;
        scale_columns(end - begin, count, width, (const float *)o->m[0].memory + offset, mean + c0,
                      factor, bias, (float *)o->m[5].memory + offset);
    }
}

grail_status cpu_batch_norm(const operation *o)
{
    enum { GRAINS = 4 }; /* the factors are computed once per piece */
    parallel_for(o->m[0].rows, GRAINS * host_rows_grain(o->m[0].columns), batch_rows,
                 (void *)(uintptr_t)o);
    return GRAIL_OK;
}
