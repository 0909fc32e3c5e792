/* The normal equations of one regression: A_c + lambda S with the diagonal S of ridge.h, factored
 * in A's own memory (algebra/damped.h) and centred when the regression has a bias.
 *
 * When raising lambda does not help, the eigenvalues of A_c are computed (only this needs a second
 * matrix) and those below 1e-10 of the largest are dropped: the solution has no part along their
 * vectors. There S = I, since only this penalty shares its eigenvectors with A_c. NaN is not
 * checked here; see ridge.c. */
#ifndef GRAIL_SOLVE_SYSTEM_H
#define GRAIL_SOLVE_SYSTEM_H

#include "algebra/damped.h"
#include "solve/ridge.h"

typedef struct ridge_system {
    regression *r;
    damped_gram damped; /* with a scale of 0 nothing varies: then every solution is 0 */
    double *share;      /* [K] diagonal of S; NULL: S = I */
    bool dead;          /* some feature is constant, or at most 1e-12 of the scale is left of it */
    ridge_fallback fallback;
    matrix eigenvectors; /* [K, K] rows; only where eigenvalues are used */
    double *eigenvalues; /* [K] ascending */
} ridge_system;

/** Takes over the regression's Gram matrix. ridge_system_fini works on a zeroed or initialised
 * system. */
grail_status ridge_system_init(ridge_system *s, regression *r, bool centred,
                               ridge_scale penalty) GRAIL_MUST_CHECK;
void ridge_system_fini(ridge_system *s);

/** Factors A_c + lambda S with lambda = alpha * scale, or as the fallbacks above change it. */
grail_status ridge_system_factor(ridge_system *s, double alpha) GRAIL_MUST_CHECK;

/** X[rows, K] -= lambda W[rows, K] S, W in f32 or f64 */
grail_status ridge_system_subtract_penalty(const ridge_system *s, matrix w,
                                           matrix x) GRAIL_MUST_CHECK;

/** X[rows, K] <- X (A_c + lambda S)^-1 */
grail_status ridge_system_solve(const ridge_system *s, matrix x) GRAIL_MUST_CHECK;

/** Estimates cond_2(A_c + lambda S) from below by a few steps of power and inverse iteration.
 */
grail_status ridge_system_condition(const ridge_system *s, double *out) GRAIL_MUST_CHECK;

/** 1 / T, or 0 without rows. */
double regression_inverse_weight(const regression *r);

#endif
