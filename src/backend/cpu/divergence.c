/* The divergence between rows of logits and its gradient: f32 exponentials, f64 sums. */
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/reductions.h"
#include "backend/cpu/special.h"

#include "base/parallel.h"

#include <math.h>

enum { LANES = 16 };

typedef struct divergence_job {
    int64_t classes;
    const float *target, *logits;
    float scale;
    float *gradient; /* NULL, or perhaps the logits */
    double *divergence;
} divergence_job;

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

/* exp(a - largest) (a - b - shift), and 0 where the exponential vanishes, however far b is. */
static inline double divergence_term(float a, float b, float largest, double shift)
{
    const float p = exp_f32(a - largest);
    const double term = (double)p * ((double)a - (double)b - shift);
    return p > 0.0F ? term : 0.0;
}

/* sum of p (log p - log q) */
CPU_CLONES static double divergence_sum(int64_t classes, const softmax_row *p, const softmax_row *q,
                                        double shift)
{
    double lanes[LANES] = {0.0};
    const float *a = p->x;
    const float *b = q->x;
    const float largest = p->largest;
    const int64_t vectors_end = classes / LANES * LANES;
    for (int64_t i = 0; i < vectors_end; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] += divergence_term(a[i + lane], b[i + lane], largest, shift);
        }
    }
    for (int64_t i = vectors_end; i < classes; i++) {
        lanes[i - vectors_end] += divergence_term(a[i], b[i], largest, shift);
    }
    double sum = 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lanes[lane];
    }
    return sum / p->total;
}

CPU_CLONES static void divergence_slope(int64_t classes, const softmax_row *p, const softmax_row *q,
                                        float scale, float *gradient)
{
    const float p_factor = (float)(1.0 / p->total);
    const float q_factor = (float)(1.0 / q->total);
    const float p_largest = p->largest;
    const float q_largest = q->largest;
    const float *a = p->x;
    const float *b = q->x;
    for (int64_t i = 0; i < classes; i++) {
        gradient[i] =
            scale * (exp_f32(b[i] - q_largest) * q_factor - exp_f32(a[i] - p_largest) * p_factor);
    }
}

static void divergence_rows(int64_t begin, int64_t end, void *context)
{
    const divergence_job *d = context;
    for (int64_t r = begin; r < end; r++) {
        const softmax_row p = softmax_of(d->classes, d->target + r * d->classes);
        const softmax_row q = softmax_of(d->classes, d->logits + r * d->classes);
        d->divergence[r] = divergence_sum(d->classes, &p, &q, log_sum(&p) - log_sum(&q));
        if (d->gradient != NULL) {
            divergence_slope(d->classes, &p, &q, d->scale, d->gradient + r * d->classes);
        }
    }
}

void cpu_divergence(int64_t rows, int64_t classes, const void *target, const void *logits,
                    double scale, void *gradient, double *divergence)
{
    divergence_job d = {classes, target, logits, (float)scale, gradient, divergence};
    parallel_for(rows, host_rows_grain(classes), divergence_rows, &d);
}
