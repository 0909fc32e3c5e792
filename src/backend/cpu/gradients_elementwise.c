/* Gradients that are made element by element in f32, and the step of an optimiser. */
#include "backend/cpu/clones.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/special.h"

#include "base/parallel.h"

#include <math.h>
#include <string.h>

/* Elements that one thread takes at once. */
enum { GRAIN = 1 << 15 };

typedef struct activation_gradient {
    const float *x, *dy;
    float *dx;   /* may be dy */
    float bound; /* a variable, since compilers fold what follows from a constant into branches */
} activation_gradient;

/* Beyond this the slopes of the smooth activations are 0 or 1 in f32, and products of x with
 * vanishing or growing exponentials could make NaN of it. */
static const float largest_argument = 64.0F;

static inline float within(float bound, float x)
{
    return x < -bound ? -bound : x > bound ? bound : x;
}

/* Of x s(u), s(u) = 1 / (1 + exp(-u)) with du/dx = slope; 1 - s is exp(-u) s, without a difference
 * that cancels. */
static inline float gated_slope(float x, float u, float slope)
{
    const float e = exp_f32(-u);
    const float s = 1.0F / (1.0F + e);
    return s + s * (x * (e * s) * slope);
}

CPU_CLONES static void silu(int64_t begin, int64_t end, void *context)
{
    const activation_gradient *g = context;
    const float bound = g->bound;
    for (int64_t i = begin; i < end; i++) {
        const float x = within(bound, g->x[i]);
        g->dx[i] = gated_slope(x, x, 1.0F) * g->dy[i];
    }
}

/* Phi(x) + x phi(x), Phi(x) = Q for x <= 0 and 1 - Q otherwise, Q = erfc(|x| / sqrt(2)) / 2. */
CPU_CLONES static void gelu(int64_t begin, int64_t end, void *context)
{
    const activation_gradient *g = context;
    const float bound = g->bound;
    const float density = (float)(0.5 * M_2_SQRTPI * M_SQRT1_2); /* 1 / sqrt(2 pi) */
    for (int64_t i = begin; i < end; i++) {
        const float x = within(bound, g->x[i]);
        const float z = fabsf(x) * (float)M_SQRT1_2;
        const float tail = 0.5F * erfc_f32(z);
        const float below = x > 0.0F ? 1.0F - tail : tail;
        g->dx[i] = (below + density * x * exp_f32(-z * z)) * g->dy[i];
    }
}

/* 0.5 x (1 + tanh u) = x s(2 u) */
CPU_CLONES static void gelu_tanh(int64_t begin, int64_t end, void *context)
{
    const activation_gradient *g = context;
    const float bound = g->bound;
    const float factor = (float)(2.0 * M_2_SQRTPI * M_SQRT1_2);
    for (int64_t i = begin; i < end; i++) {
        const float x = within(bound, g->x[i]);
        const float u = factor * (x + 0.044715F * x * x * x);
        const float slope = factor * (1.0F + 3.0F * 0.044715F * x * x);
        g->dx[i] = gated_slope(x, u, slope) * g->dy[i];
    }
}

CPU_CLONES static void quick_gelu(int64_t begin, int64_t end, void *context)
{
    const activation_gradient *g = context;
    const float bound = g->bound;
    for (int64_t i = begin; i < end; i++) {
        const float x = within(bound, g->x[i]);
        g->dx[i] = gated_slope(x, 1.702F * x, 1.702F) * g->dy[i];
    }
}

CPU_CLONES static void relu(int64_t begin, int64_t end, void *context)
{
    const activation_gradient *g = context;
    for (int64_t i = begin; i < end; i++) {
        g->dx[i] = (g->x[i] > 0.0F ? 1.0F : 0.0F) * g->dy[i];
    }
}

grail_status cpu_activate_gradient(const operation *o)
{
    static const parallel_body bodies[] = {
        [ACTIVATION_SILU] = silu,
        [ACTIVATION_GELU] = gelu,
        [ACTIVATION_GELU_TANH] = gelu_tanh,
        [ACTIVATION_RELU] = relu,
        [ACTIVATION_QUICK_GELU] = quick_gelu,
    };
    activation_gradient g = {o->m[0].memory, o->m[1].memory, o->m[2].memory, largest_argument};
    parallel_for(matrix_count(o->m[0]), GRAIN, bodies[o->with.activation], &g);
    return GRAIL_OK;
}

enum { COLUMNS = 256 }; /* whose sums over rows are formed at once */

CPU_CLONES static void add_values(int64_t count, const float *dy, double *sums)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)dy[i];
    }
}

CPU_CLONES static void add_products(int64_t count, const float *a, const float *dy, double *sums)
{
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (double)a[i] * (double)dy[i];
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
            add_values(count, gradient, sums);
        } else {
            add_products(count, (const float *)host_row(o->m[1], r) + first, gradient, sums);
        }
    }
    return count;
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
