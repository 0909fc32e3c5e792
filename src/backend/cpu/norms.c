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

void cpu_rms_norm(int64_t rows, int64_t width, int64_t group, double epsilon, const void *x,
                  const void *weight, void *y)
{
    norm n = {.width = group, .epsilon = epsilon, .x = x, .weight = weight, .y = y};
    parallel_for(group > 0 ? rows * width / group : 0, host_rows_grain(group), rms_rows, &n);
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

void cpu_layer_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *weight,
                    const void *bias, void *y)
{
    norm n = {.width = width, .epsilon = epsilon, .x = x, .weight = weight, .bias = bias, .y = y};
    parallel_for(rows, host_rows_grain(width), layer_rows, &n);
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

void cpu_unit_length(int64_t rows, int64_t width, const void *x, void *y)
{
    norm n = {.width = width, .epsilon = 1e-12, .x = x, .y = y};
    parallel_for(rows, host_rows_grain(width), unit_rows, &n);
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

void cpu_batch_norm(int64_t rows, int64_t width, double epsilon, const void *x, const void *mean,
                    const void *variance, const void *weight, const void *bias, void *y)
{
    enum { GRAINS = 4 }; /* the factors are computed once per piece */
    norm n = {.width = width,
              .epsilon = epsilon,
              .x = x,
              .mean = mean,
              .variance = variance,
              .weight = weight,
              .bias = bias,
              .y = y};
    parallel_for(rows, GRAINS * host_rows_grain(width), batch_rows, &n);
}
