/* Gradients that are made element by element in f32, and the step of an optimiser. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/reductions.h"
#include "backend/shapes.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <math.h>
#include <string.h>

/* Elements that one thread takes at once. */
enum { GRAIN = 1 << 15 };

enum { COLUMNS = 256 }; /* whose sums over rows are formed at once */

CPU_CLONES static void multiply_row(int64_t count, const float *a, const float *b, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = a[i] * b[i];
    }
}

/* sums[i] = sum over the rows that a row of B is spread over, of COLUMNS columns from `first`;
 * returns how many of these there are. */
static int64_t sum_spread(const operation *o, int64_t row, int64_t first, double *sums)
{
    const matrix dy = o->m[0];
    const int64_t group = dy.rows / o->m[2].rows;
    const int64_t count = dy.columns - first < COLUMNS ? dy.columns - first : COLUMNS;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t r = row * group; r < (row + 1) * group; r++) {
        const float *gradient = (const float *)host_row(dy, r) + first;
        if (o->m[1].memory == NULL) {
            accumulate_row(count, gradient, sums);
        } else {
            accumulate_products(count, (const float *)host_row(o->m[1], r) + first, gradient, sums);
        }
    }
    return count;
}

/* dB = dY, or A * dY, where each row of B has its own: a product in f64 has all its digits. */
static void copy_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t columns = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        if (o->m[1].memory == NULL) {
            memcpy(host_row(o->m[2], r), host_row(o->m[0], r), (size_t)columns * sizeof(float));
        } else {
            multiply_row(columns, host_row(o->m[1], r), host_row(o->m[0], r), host_row(o->m[2], r));
        }
    }
}

static void spread_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix db = o->m[2];
    const bool is_column = db.columns < o->m[0].columns;
    double sums[COLUMNS];
    for (int64_t r = begin; r < end; r++) {
        float *out = host_row(db, r);
        double total = 0.0;
        for (int64_t first = 0; first < o->m[0].columns; first += COLUMNS) {
            const int64_t count = sum_spread(o, r, first, sums);
            for (int64_t i = 0; i < count; i++) {
                total += sums[i];
                if (!is_column) {
                    out[first + i] = (float)sums[i];
                }
            }
        }
        if (is_column) {
            out[0] = (float)total;
        }
    }
}

/* The rows of B are shared out, so that the order of a sum does not depend on the threads. */
grail_status cpu_spread_gradient(const operation *o)
{
    if (same_shape(o->m[0], o->m[2])) {
        return host_over_rows(o, o->m[2], copy_rows);
    }
    parallel_for(o->m[2].rows, 1, spread_rows, (void *)(uintptr_t)o);
    return GRAIL_OK;
}

/* A descent with what is the same for all elements computed beforehand. */
typedef struct descent_job {
    float first_decay, first_rest; /* rest: 1 - decay */
    float second_decay, second_rest;
    float length;       /* rate / first_share */
    float second_scale; /* 1 / second_share */
    float epsilon;
    const float *gradient;
    float *first, *second, *weight;
} descent_job;

/* With second moments alone. */
CPU_CLONES static void descend_second(int64_t begin, int64_t end, void *context)
{
    const descent_job *d = context;
    for (int64_t i = begin; i < end; i++) {
        const float g = d->gradient[i];
        const float v = d->second_decay * d->second[i] + d->second_rest * g * g;
        d->second[i] = v;
        d->weight[i] -= d->length * g / (sqrtf(v * d->second_scale) + d->epsilon);
    }
}

CPU_CLONES static void descend_both(int64_t begin, int64_t end, void *context)
{
    const descent_job *d = context;
    for (int64_t i = begin; i < end; i++) {
        const float g = d->gradient[i];
        const float m = d->first_decay * d->first[i] + d->first_rest * g;
        const float v = d->second_decay * d->second[i] + d->second_rest * g * g;
        d->first[i] = m;
        d->second[i] = v;
        d->weight[i] -= d->length * m / (sqrtf(v * d->second_scale) + d->epsilon);
    }
}

grail_status cpu_descend(const operation *o)
{
    const descent *step = o->with.descent;
    descent_job d = {.first_decay = (float)step->first_decay,
                     .first_rest = (float)(1.0 - step->first_decay),
                     .second_decay = (float)step->second_decay,
                     .second_rest = (float)(1.0 - step->second_decay),
                     .length = (float)(step->rate / step->first_share),
                     .second_scale = (float)(1.0 / step->second_share),
                     .epsilon = (float)step->epsilon,
                     .gradient = o->m[0].memory,
                     .first = o->m[1].memory,
                     .second = o->m[2].memory,
                     .weight = o->m[3].memory};
    parallel_for(matrix_count(o->m[3]), GRAIN, d.first == NULL ? descend_second : descend_both, &d);
    return GRAIL_OK;
}
