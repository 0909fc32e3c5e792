/* The divergence between rows of logits and its gradient: f32 exponentials, f64 sums. */
#include "backend/cpu/exponentials.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"
#include "backend/cpu/tasks.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 512 };

CPU_CLONES static void weigh_plainly(int64_t count, const float *x, float largest, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = exp_f32(x[i] - largest);
    }
}

#ifdef HAS_EXPONENTIALS
__attribute__((target("avx512f"))) static void weigh_by_unit(int64_t count, const float *x,
                                                             float largest, float *out)
{
    enum { VECTOR = 16 };
    const __m512 shift = _mm512_set1_ps(largest);
    for (int64_t i = 0; i < count; i += VECTOR) {
        const int64_t left = smaller(VECTOR, count - i);
        const __mmask16 some = (__mmask16)((1U << (unsigned int)left) - 1U);
        const __m512 below = _mm512_sub_ps(_mm512_maskz_loadu_ps(some, x + i), shift);
        _mm512_mask_storeu_ps(out + i, some, exponentials(below));
    }
}

static void weigh(int64_t count, const float *x, float largest, float *out)
{
    if (__builtin_cpu_supports("avx512f")) {
        weigh_by_unit(count, x, largest, out);
    } else {
        weigh_plainly(count, x, largest, out);
    }
}
#else
static void weigh(int64_t count, const float *x, float largest, float *out)
{
    weigh_plainly(count, x, largest, out);
}
#endif

static inline double kept_finite(float x)
{
    return (double)x < -DBL_MAX ? -DBL_MAX : (double)x;
}

/* p (a - b - shift). What logits of minus infinity hide is kept finite, so that the term is 0 where
 * p vanishes, however far b is; NaN stays. */
static inline double term_of(float p, float a, float b, double shift)
{
    return (double)p * (kept_finite(a) - kept_finite(b) - shift);
}

LANE_SUM(sum_of_terms,
         (int64_t count, const float *p, const float *a, const float *b, double shift),
         term_of(p[i], a[i], b[i], shift))

/* The gradient holds the exponentials of the logits. */
CPU_CLONES static void slopes(int64_t count, const float *p, float p_factor, float q_factor,
                              float *gradient)
{
    for (int64_t i = 0; i < count; i++) {
        gradient[i] = gradient[i] * q_factor - p[i] * p_factor;
    }
}

/* The exponentials of a row, in `p` and in the gradient, which may be missing or lie in the logits;
 * then a block of `p` is enough. */
static void divergence_row(const operation *o, int64_t r, float *p)
{
    const int64_t classes = o->m[0].columns;
    const float *target = host_row(o->m[0], r);
    const float *logits = host_row(o->m[1], r);
    float *gradient = o->m[2].memory == NULL ? NULL : host_row(o->m[2], r);
    const float p_largest = row_maximum(classes, target, -INFINITY);
    const float q_largest = row_maximum(classes, logits, -INFINITY);
    const double shift = (double)p_largest - (double)q_largest;
    float q_block[BLOCK];
    double p_total = 0.0;
    double q_total = 0.0;
    double sum = 0.0;
    for (int64_t i = 0; i < classes; i += BLOCK) {
        const int64_t count = smaller(BLOCK, classes - i);
        float *p_at = gradient == NULL ? p : p + i;
        float *q_at = gradient == NULL ? q_block : gradient + i;
        weigh(count, target + i, p_largest, p_at);
        p_total += row_sum(count, p_at);
        sum += sum_of_terms(count, p_at, target + i, logits + i, shift);
        weigh(count, logits + i, q_largest, q_at);
        q_total += row_sum(count, q_at);
    }
    if (gradient != NULL) {
        slopes(classes, p, (float)(o->with.alpha / p_total), (float)(o->with.alpha / q_total),
               gradient);
    }
    ((double *)o->m[3].memory)[r] = sum / p_total + log(q_total / p_total);
}

static void divergence_rows(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const operation *o = context;
    const int64_t grain = host_rows_grain(o->m[0].columns);
    const int64_t end = smaller((task + 1) * grain, o->m[0].rows);
    for (int64_t r = task * grain; r < end; r++) {
        divergence_row(o, r, scratch);
    }
}

grail_status cpu_divergence(const operation *o)
{
    const int64_t classes = o->m[0].columns;
    const int64_t grain = host_rows_grain(classes);
    return tasks_run((o->m[0].rows + grain - 1) / grain,
                     (size_t)(classes > BLOCK ? classes : BLOCK), divergence_rows,
                     (void *)(uintptr_t)o);
}
