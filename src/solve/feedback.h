/* Rounding with error feedback. Source: GPTQ (Frantar et al., 2210.17323). The columns of W[O, H]
 * are rounded from left to right. What rounding column j changes, e_j, is made up for by the
 * columns behind it as far as the inputs allow: with G^-1 = U^T U, U upper triangular,
 *
 *   W[:, k] -= e_j U[j, k] / U[j, j]   for k > j
 *
 * is the least ||X W^T - X W'^T||^2 given what is rounded already, and rounding column j costs
 * (e_j / U[j, j])^2 of it. The factors of a block of columns are those for which the sum of that
 * is small when its weights at that time are rounded to the nearest numbers. */
#ifndef GRAIL_SOLVE_FEEDBACK_H
#define GRAIL_SOLVE_FEEDBACK_H

#include "backend/operations.h"
#include "tensor/quantize.h"

/** U[j, k] / U[j, j] of matrices that read the same rows. */
typedef struct feedback {
    int64_t columns; /* H */
    float *factor;   /* [H, H], above the diagonal; owned */
    float *costs;    /* [H]: 1 / U[j, j]^2, the largest 1; owned */
} feedback;

/** Of G + lambda I, lambda = 0.01 mean diag G or as it has to be raised. Reads the lower triangle
 * of G[H, H], which is lost. feedback_fini frees, even after a failure. */
grail_status feedback_init(matrix gram, feedback *out) GRAIL_MUST_CHECK;
void feedback_fini(feedback *f); /* works on a zeroed one */

/** stored <- W[rows, H] rounded to the blocks of `dtype`, weights <- the rounded values. */
grail_status feedback_round(const feedback *f, grail_dtype dtype, int64_t rows, float *weights,
                            void *stored) GRAIL_MUST_CHECK;

#endif
