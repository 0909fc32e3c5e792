/* Norms in f32: RMS, batch, layer, unit length. Means and variances are f64 sums. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/reductions.h"

#include "base/parallel.h"

#include <math.h>

typedef struct norm {
    int64_t width; /* of what is normalised together */
    double epsilon;
    const float *x;
    const float *mean, *variance; /* batch norm */
    const float *weight, *bias;   /* either may be NULL */
    float *y;
} norm;

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
    const norm *n = context;
    for (int64_t r = begin; r < end; r++) {
        const float *x = n->x + r * n->width;
        const double mean = squares_of_row(n->width, x, 0.0) / (double)n->width;
        const float factor = (float)(1.0 / sqrt(mean + n->epsilon));
        scale_row(n->width, x, 0.0F, factor, n->weight, NULL, n->y + r * n->width);
    }
}

grail_status cpu_rms_norm(const operation *o)
{
    const int64_t group = o->m[1].columns;
    norm n = {.width = group,
              .epsilon = o->with.epsilon,
              .x = o->m[0].memory,
              .weight = o->m[1].memory,
              .y = o->m[2].memory};
    parallel_for(matrix_count(o->m[0]) / group, host_rows_grain(group), rms_rows, &n);
    return GRAIL_OK;
}

static void layer_rows(int64_t begin, int64_t end, void *context)
{
    const norm *n = context;
    for (int64_t r = begin; r < end; r++) {
        const float *x = n->x + r * n->width;
        const double mean = row_sum(n->width, x) / (double)n->width;
        const double variance = squares_of_row(n->width, x, mean) / (double)n->width;
        const float factor = (float)(1.0 / sqrt(variance + n->epsilon));
        scale_row(n->width, x, (float)mean, factor, n->weight, n->bias, n->y + r * n->width);
    }
}

grail_status cpu_layer_norm(const operation *o)
{
    const matrix x = o->m[0];
    norm n = {.width = x.columns,
              .epsilon = o->with.epsilon,
              .x = x.memory,
              .weight = o->m[1].memory,
              .bias = o->m[2].memory,
              .y = o->m[3].memory};
    parallel_for(x.rows, host_rows_grain(x.columns), layer_rows, &n);
    return GRAIL_OK;
}

static void unit_rows(int64_t begin, int64_t end, void *context)
{
    const norm *n = context;
    for (int64_t r = begin; r < end; r++) {
        const float *x = n->x + r * n->width;
        const double length = fmax(sqrt(squares_of_row(n->width, x, 0.0)), n->epsilon);
        scale_row(n->width, x, 0.0F, (float)(1.0 / length), NULL, NULL, n->y + r * n->width);
    }
}

grail_status cpu_unit_length(const operation *o)
{
    const matrix x = o->m[0];
    norm n = {.width = x.columns, .epsilon = 1e-12, .x = x.memory, .y = o->m[1].memory};
    parallel_for(x.rows, host_rows_grain(x.columns), unit_rows, &n);
    return GRAIL_OK;
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
    const norm *n = context;
    float factor[COLUMNS];
    float bias[COLUMNS];
    for (int64_t c0 = 0; c0 < n->width; c0 += COLUMNS) {
        const int64_t count = n->width - c0 < COLUMNS ? n->width - c0 : COLUMNS;
        for (int64_t c = 0; c < count; c++) {
            const double deviation = sqrt((double)n->variance[c0 + c] + n->epsilon);
            const double weight = n->weight == NULL ? 1.0 : (double)n->weight[c0 + c];
            factor[c] = (float)(weight / deviation);
            bias[c] = n->bias == NULL ? 0.0F : n->bias[c0 + c];
        }
        const int64_t offset = begin * n->width + c0;
        scale_columns(end - begin, count, n->width, n->x + offset, n->mean + c0, factor, bias,
                      n->y + offset);
    }
}

grail_status cpu_batch_norm(const operation *o)
{
    enum { GRAINS = 4 }; /* the factors are computed once per piece */
    const matrix x = o->m[0];
    norm n = {.width = x.columns,
              .epsilon = o->with.epsilon,
              .x = x.memory,
              .mean = o->m[1].memory,
              .variance = o->m[2].memory,
              .weight = o->m[3].memory,
              .bias = o->m[4].memory,
              .y = o->m[5].memory};
    parallel_for(x.rows, GRAINS * host_rows_grain(x.columns), batch_rows, &n);
    return GRAIL_OK;
}
