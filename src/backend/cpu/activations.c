/* Activations of the cpu backend in f32: of each its value and its slope, and loops over both. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/special.h"
#include "base/clones.h"

#include "base/parallel.h"

#include <math.h>

/* Elements that one thread takes at once: some 10 microseconds of work. */
enum { GRAIN = 1 << 15 };

static inline float within(float least, float most, float x)
{
    return x < least ? least : x > most ? most : x; /* NaN stays */
}

CPU_CLONES static void limit(int64_t count, float ceiling, float *y)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = within(0.0F, ceiling, y[i]);
    }
}

void cpu_limit(int64_t count, float ceiling, float *y)
{
    limit(count, ceiling, y);
}

/* The slope of x s(u), s(u) = 1 / (1 + exp(-u)) with du/dx = slope; 1 - s is exp(-u) s, without a
 * difference that cancels. */
static inline float gated_slope(float x, float u, float slope)
{
    const float e = exp_f32(-u);
    const float s = 1.0F / (1.0F + e);
    return s + s * (x * (e * s) * slope);
}

static inline float silu(float x)
{
    return x / (1.0F + exp_f32(-x));
}

static inline float silu_slope(float x)
{
    return gated_slope(x, x, 1.0F);
}

/* x Phi(x) = x - x Q for x > 0 and x Q otherwise, Q = erfc(|x| / sqrt(2)) / 2. */
static inline float gelu(float x)
{
    const float z = fabsf(x) * (float)M_SQRT1_2;
    const float tail = 0.5F * x * erfc_f32(z);
    return x > 0.0F ? x - tail : tail;
}

/* Phi(x) + x phi(x), Phi(x) = Q for x <= 0 and 1 - Q otherwise. */
static inline float gelu_slope(float x)
{
    const float density = (float)(0.5 * M_2_SQRTPI * M_SQRT1_2); /* 1 / sqrt(2 pi) */
    const float z = fabsf(x) * (float)M_SQRT1_2;
    const float tail = 0.5F * erfc_f32(z);
    const float below = x > 0.0F ? 1.0F - tail : tail;
    return below + density * x * exp_f32(-z * z);
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)) */
static inline float gelu_tanh(float x)
{
    const float factor = (float)(-2.0 * M_2_SQRTPI * M_SQRT1_2);
    return x / (1.0F + exp_f32(factor * (x + 0.044715F * x * x * x)));
}

static inline float gelu_tanh_slope(float x)
{
    const float factor = (float)(2.0 * M_2_SQRTPI * M_SQRT1_2);
    const float u = factor * (x + 0.044715F * x * x * x);
    return gated_slope(x, u, factor * (1.0F + 3.0F * 0.044715F * x * x));
}

static inline float quick_gelu(float x)
{
    return x / (1.0F + exp_f32(-1.702F * x));
}

static inline float quick_gelu_slope(float x)
{
    return gated_slope(x, 1.702F * x, 1.702F);
}

static inline float relu(float x)
{
    return x < 0.0F ? 0.0F : x; /* NaN stays */
}

static inline float relu_slope(float x)
{
    return x > 0.0F ? 1.0F : 0.0F;
}

static inline float relu6(float x)
{
    return within(0.0F, 6.0F, x);
}

static inline float relu6_slope(float x)
{
    return x > 0.0F && x < 6.0F ? 1.0F : 0.0F;
}

static inline float sigmoid(float x)
{
    return 1.0F / (1.0F + exp_f32(-x));
}

static inline float sigmoid_slope(float x)
{
    const float e = exp_f32(-x);
    const float s = 1.0F / (1.0F + e);
    return e * s * s;
}

static inline float hard_sigmoid(float x)
{
    return relu6(x + 3.0F) / 6.0F;
}

static inline float hard_sigmoid_slope(float x)
{
    return relu6_slope(x + 3.0F) / 6.0F;
}

static inline float tanh_slope(float x)
{
    return 4.0F * sigmoid_slope(2.0F * x); /* 1 - tanh^2, without a difference that cancels */
}

static inline float erf_slope(float x)
{
    return 1.12837917F * exp_f32(-x * x);
}

/* exp(x) - 1 = tanh(x / 2) (exp(x) + 1), whose sum does not cancel */
static inline float elu(float x)
{
    const float below = tanh_f32(0.5F * x) * (exp_f32(x) + 1.0F);
    return x > 0.0F ? x : below;
}

static inline float elu_slope(float x)
{
    const float below = exp_f32(x);
    return x > 0.0F ? 1.0F : below;
}

static inline float softplus(float x)
{
    const float size = x < 0.0F ? -x : x;
    return relu(x) + log1p_f32(exp_f32(-size));
}

static inline float softplus_slope(float x)
{
    return sigmoid(x);
}

/* In the place of libm's. */
#define tanh tanh_f32
#define erf erf_f32

typedef struct activation_job {
    const float *x, *dy;
    float *y;    /* or dx; may be the input */
    float bound; /* a variable, since compilers fold what follows from a constant into branches */
} activation_job;

/* Beyond this the slopes are 0 or 1 in f32, and products of x with vanishing or growing
 * exponentials could make NaN of it. */
static const float largest_argument = 64.0F;

#define ACTIVATION(kind, name)                                                                     \
    CPU_CLONES static void name##_values(int64_t begin, int64_t end, void *context)                \
    {                                                                                              \
        const activation_job *j = context;                                                         \
        for (int64_t i = begin; i < end; i++) {                                                    \
            j->y[i] = name(j->x[i]);                                                               \
        }                                                                                          \
    }                                                                                              \
    CPU_CLONES static void name##_slopes(int64_t begin, int64_t end, void *context)                \
    {                                                                                              \
        const activation_job *j = context;                                                         \
        const float bound = j->bound;                                                              \
        for (int64_t i = begin; i < end; i++) {                                                    \
            j->y[i] = name##_slope(within(-bound, bound, j->x[i])) * j->dy[i];                     \
        }                                                                                          \
    }
#include "graph/activation_list.h"
#undef ACTIVATION

typedef struct activation_loops {
    parallel_body values, slopes;
} activation_loops;

static const activation_loops loops[] = {
#define ACTIVATION(kind, name) [ACTIVATION_##kind] = {name##_values, name##_slopes},
#include "graph/activation_list.h"
#undef ACTIVATION
};

grail_status cpu_activate(const operation *o)
{
    activation_job job = {.x = o->m[0].memory, .y = o->m[1].memory};
    parallel_for(matrix_count(o->m[0]), GRAIN, loops[o->with.activation].values, &job);
    return GRAIL_OK;
}

grail_status cpu_activate_gradient(const operation *o)
{
    activation_job job = {o->m[0].memory, o->m[1].memory, o->m[2].memory, largest_argument};
    parallel_for(matrix_count(o->m[0]), GRAIN, loops[o->with.activation].slopes, &job);
    return GRAIL_OK;
}

typedef struct cap_job {
    const float *x, *dy; /* x is y on the way back */
    float *y;            /* or dx; may be an input */
    float cap;
} cap_job;

CPU_CLONES static void cap_values(int64_t begin, int64_t end, void *context)
{
    const cap_job *j = context;
    const float inverse = 1.0F / j->cap;
    for (int64_t i = begin; i < end; i++) {
        j->y[i] = j->cap * tanh_f32(j->x[i] * inverse);
    }
}

CPU_CLONES static void cap_slopes(int64_t begin, int64_t end, void *context)
{
    const cap_job *j = context;
    const float inverse = 1.0F / j->cap;
    for (int64_t i = begin; i < end; i++) {
        const float share = j->x[i] * inverse;
        j->y[i] = (1.0F - share * share) * j->dy[i];
    }
}

grail_status cpu_soft_cap(const operation *o)
{
    cap_job job = {.x = o->m[0].memory, .y = o->m[1].memory, .cap = (float)o->with.alpha};
    parallel_for(matrix_count(o->m[0]), GRAIN, cap_values, &job);
    return GRAIL_OK;
}

grail_status cpu_soft_cap_gradient(const operation *o)
{
    cap_job job = {o->m[0].memory, o->m[1].memory, o->m[2].memory, (float)o->with.alpha};
    parallel_for(matrix_count(o->m[0]), GRAIN, cap_slopes, &job);
    return GRAIL_OK;
}
