/* The divergence between rows of logits and its gradient: f32 exponentials, f64 sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 512 };

/* softmax(x)[i] = exp(x[i] - largest) / total */
typedef struct softmax_row {
    const float *x;
    float largest;
    double total;
} softmax_row;

static softmax_row softmax_of(int64_t classes, const float *x)
{
    const float largest = row_maximum(classes, x, -INFINITY);
    return (softmax_row){x, largest, row_exponentials(classes, x, largest)};
}

static double log_sum(const softmax_row *s)
{
    return (double)s->largest + log(s->total);
}

CPU_CLONES static void weigh(int64_t count, const float *x, float largest, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = exp_f32(x[i] - largest);
    }
}

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

CPU_CLONES static void slopes(int64_t count, const float *p, float p_factor, const float *q,
                              float q_factor, float *gradient)
{
    for (int64_t i = 0; i < count; i++) {
        gradient[i] = q[i] * q_factor - p[i] * p_factor;
    }
}

/* The gradient may be missing, or lie in the logits. */
static void divergence_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const int64_t classes = o->m[0].columns;
    for (int64_t r = begin; r < end; r++) {
        const softmax_row p = softmax_of(classes, host_row(o->m[0], r));
        const softmax_row q = softmax_of(classes, host_row(o->m[1], r));
        float *gradient = o->m[2].memory == NULL ? NULL : host_row(o->m[2], r);
        /* Goes through a row in blocks whose exponentials are kept for the gradient; that may be
         * written over the logits, which are read before. */
        float p_block[BLOCK];
        float q_block[BLOCK];
        const double shift = log_sum(&p) - log_sum(&q);
        double sum = 0.0;
        for (int64_t i = 0; i < classes; i += BLOCK) {
            const int64_t count = classes - i < BLOCK ? classes - i : BLOCK;
            weigh(count, p.x + i, p.largest, p_block);
            sum += sum_of_terms(count, p_block, p.x + i, q.x + i, shift);
            if (gradient != NULL) {
                weigh(count, q.x + i, q.largest, q_block);
                slopes(count, p_block, (float)(o->with.alpha / p.total), q_block,
                       (float)(o->with.alpha / q.total), gradient + i);
            }
        }
        ((double *)o->m[3].memory)[r] = sum / p.total;
    }
}

grail_status cpu_divergence(const operation *o)
{
    return host_over_rows(o, o->m[0], divergence_rows);
}
