/* Elementwise arithmetic in f32. */
#include "backend/cpu/kernels.h"
#include "base/clones.h"

#include "base/parallel.h"

/* Elements that one thread takes at once: some 10 microseconds of work. */
enum { GRAIN = 1 << 15 };

typedef struct elementwise {
    const float *a;
    const float *b;
    float *y;
} elementwise;

typedef struct combination {
    const operation *operation;
    parallel_body body;
} combination;

/* Y's row of a B that has a single column. */
static void combine_with_one(const combination *c, const float *a, float b, float *y)
{
    enum { AT_ONCE = 256 };
    float same[AT_ONCE];
    const int64_t columns = c->operation->m[2].columns;
    for (int64_t i = 0; i < AT_ONCE; i++) {
        same[i] = b;
    }
    for (int64_t i = 0; i < columns; i += AT_ONCE) {
        elementwise e = {a + i, same, y + i};
        c->body(0, smaller(columns - i, AT_ONCE), &e);
    }
}

static void combine_rows(int64_t begin, int64_t end, void *context)
{
    const combination *c = context;
    const matrix *m = c->operation->m;
    const int64_t group = m[2].rows / m[1].rows;
    for (int64_t r = begin; r < end; r++) {
        const float *b = host_row(m[1], r / group);
        elementwise e = {host_row(m[0], r), b, host_row(m[2], r)};
        if (m[1].columns == m[2].columns) {
            c->body(0, m[2].columns, &e);
        } else {
            combine_with_one(c, e.a, b[0], e.y);
        }
    }
}

/* Packed matrices of one shape are one long row. */
static grail_status combine(const operation *o, parallel_body body)
{
    const matrix *m = o->m;
    if (matrix_count(m[1]) == matrix_count(m[2]) && matrix_is_packed(m[0]) &&
        matrix_is_packed(m[1]) && matrix_is_packed(m[2])) {
        elementwise e = {m[0].memory, m[1].memory, m[2].memory};
        parallel_for(matrix_count(m[2]), GRAIN, body, &e);
        return GRAIL_OK;
    }
    combination c = {o, body};
    parallel_for(m[2].rows, host_rows_grain(m[2].columns), combine_rows, &c);
    return GRAIL_OK;
}

#define ELEMENTWISE(name, sign)                                                                    \
    CPU_CLONES static void name(int64_t begin, int64_t end, void *context)                         \
    {                                                                                              \
        const elementwise *e = context;                                                            \
        for (int64_t i = begin; i < end; i++) {                                                    \
            e->y[i] = e->a[i] sign e->b[i];                                                        \
        }                                                                                          \
    }                                                                                              \
    grail_status cpu_##name(const operation *o)                                                    \
    {                                                                                              \
        return combine(o, name);                                                                   \
    }

ELEMENTWISE(multiply, *)
ELEMENTWISE(add, +)
ELEMENTWISE(subtract, -)
