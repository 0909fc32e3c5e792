/* Elementwise kernels in f32: activations, arithmetic, and the search for NaN and infinity. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/special.h"

#include "base/parallel.h"

#include <math.h>
#include <stdatomic.h>

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

void cpu_activation(activation_kind kind, int64_t count, const void *x, void *y)
{
    static const parallel_body bodies[] = {
        [ACTIVATION_SILU] = silu,
        [ACTIVATION_GELU] = gelu,
        [ACTIVATION_GELU_TANH] = gelu_tanh,
        [ACTIVATION_RELU] = relu,
        [ACTIVATION_QUICK_GELU] = quick_gelu,
    };
    elementwise e = {.a = x, .y = y};
    parallel_for(count, GRAIN, bodies[kind], &e);
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

void cpu_multiply(int64_t count, const void *a, const void *b, void *y)
{
    elementwise e = {a, b, y};
    parallel_for(count, GRAIN, multiply, &e);
}

void cpu_add(int64_t count, const void *a, const void *b, void *y)
{
    elementwise e = {a, b, y};
    parallel_for(count, GRAIN, add, &e);
}

void cpu_subtract(int64_t count, const void *a, const void *b, void *y)
{
    elementwise e = {a, b, y};
    parallel_for(count, GRAIN, subtract, &e);
}

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

int64_t cpu_find_non_finite(int64_t count, const void *x)
{
    search s = {.x = x, .found = INT64_MAX};
    parallel_for(count, GRAIN, search_piece, &s);
    return s.found == INT64_MAX ? -1 : s.found;
}
