/* Rounding with error feedback (GPTQ, Frantar et al., 2210.17323). The columns of W[O, H] are
 * rounded from right to left; what the columns on the right lost is made up for by those on the
 * left as far as the inputs allow. It is computed as Babai's nearest plane (Chen et al.,
 * 2507.18553), which gives the same without an inverse: with G = L L^T, L lower triangular, and the
 * errors e = w - q of a row so far,
 *
 *   ||X w^T - X q^T||^2 = ||e L||^2 = sum_k (sum_{j >= k} e_j L[j, k])^2
 *
 * is least for the column k if q_k is the number nearest to w_k + sum_{j > k} e_j L[j, k] / L[k,
 * k]. Off by d it costs (d L[k, k])^2. The factors of a block of columns are those for which the
 * sum of that is small when its weights at that time are rounded to the nearest numbers. */
#ifndef GRAIL_SOLVE_FEEDBACK_H
#define GRAIL_SOLVE_FEEDBACK_H

#include "backend/operations.h"
#include "tensor/quantize.h"

/** The factor of what matrices read that share their rows. */
typedef struct feedback {
    int64_t columns; /* H */
    matrix lower;    /* [H, H]: L[j, k] / L[k, k] in the lower triangle; owned */
    float *costs;    /* [H]: L[k, k]^2, the largest 1; owned */
} feedback;

/** Factors G + lambda I, lambda = 0.01 mean diag G or as it has to be raised. Reads the lower
 * triangle of *gram, G[H, H], which is taken over: *gram is empty afterwards, even after a failure,
 * and feedback_fini frees. */
grail_status feedback_init(matrix *gram, feedback *out) GRAIL_MUST_CHECK;
void feedback_fini(feedback *f); /* works on a zeroed one */

/** stored <- W[rows, H] rounded to the blocks of `dtype`, weights <- the rounded values. Takes
 * 8 rows H bytes more. */
grail_status feedback_round(const feedback *f, grail_dtype dtype, int64_t rows, float *weights,
                            void *stored) GRAIL_MUST_CHECK;

#endif
