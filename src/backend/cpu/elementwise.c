/* Elementwise kernels in f32: activations and arithmetic. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/special.h"

#include "base/parallel.h"

#include <math.h>

/* Elements that one thread takes at once: some 10 microseconds of work. */
enum { GRAIN = 1 << 15 };

typedef struct elementwise {
    const float *a;
    const float *b;
    float *y;
} elementwise;

CPU_CLONES static void silu(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] / (1.0F + exp_f32(-e->a[i]));
    }
}

/* x Phi(x) = x - x Q for x > 0 and x Q otherwise, Q = erfc(|x| / sqrt(2)) / 2. */
CPU_CLONES static void gelu(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        const float x = e->a[i];
        const float z = fabsf(x) * (float)M_SQRT1_2;
        const float tail = 0.5F * x * erfc_f32(z);
        e->y[i] = x > 0.0F ? x - tail : tail;
    }
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)) */
CPU_CLONES static void gelu_tanh(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    const float factor = (float)(-2.0 * M_2_SQRTPI * M_SQRT1_2);
    for (int64_t i = begin; i < end; i++) {
        const float x = e->a[i];
        const float u = factor * (x + 0.044715F * x * x * x);
        e->y[i] = x / (1.0F + exp_f32(u));
    }
}

CPU_CLONES static void quick_gelu(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] / (1.0F + exp_f32(-1.702F * e->a[i]));
    }
}

CPU_CLONES static void relu(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] < 0.0F ? 0.0F : e->a[i]; /* NaN stays */
    }
}

grail_status cpu_activate(const operation *o)
{
    static const parallel_body bodies[] = {
        [ACTIVATION_SILU] = silu,
        [ACTIVATION_GELU] = gelu,
        [ACTIVATION_GELU_TANH] = gelu_tanh,
        [ACTIVATION_RELU] = relu,
        [ACTIVATION_QUICK_GELU] = quick_gelu,
    };
    elementwise e = {.a = o->m[0].memory, .y = o->m[1].memory};
    parallel_for(matrix_count(o->m[0]), GRAIN, bodies[o->with.activation], &e);
    return GRAIL_OK;
}

CPU_CLONES static void multiply(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] * e->b[i];
    }
}

CPU_CLONES static void add(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] + e->b[i];
    }
}

CPU_CLONES static void subtract(int64_t begin, int64_t end, void *context)
{
    const elementwise *e = context;
    for (int64_t i = begin; i < end; i++) {
        e->y[i] = e->a[i] - e->b[i];
    }
}

/* Packed matrices are one long row. */
static grail_status combine(const operation *o, parallel_body body)
{
    const matrix *m = o->m;
    const bool packed = matrix_is_packed(m[0]) && matrix_is_packed(m[1]) && matrix_is_packed(m[2]);
    const int64_t rows = packed ? 1 : m[2].rows;
    for (int64_t r = 0; r < rows; r++) {
        elementwise e = {host_row(m[0], r), host_row(m[1], r), host_row(m[2], r)};
        parallel_for(packed ? matrix_count(m[2]) : m[2].columns, GRAIN, body, &e);
    }
    return GRAIL_OK;
}

grail_status cpu_multiply(const operation *o)
{
    return combine(o, multiply);
}

grail_status cpu_add(const operation *o)
{
    return combine(o, add);
}

grail_status cpu_subtract(const operation *o)
{
    return combine(o, subtract);
}
