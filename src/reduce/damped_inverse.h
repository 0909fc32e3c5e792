/* Inverses of Gram matrices with a little of the identity added. */
#ifndef GRAIL_REDUCE_DAMPED_INVERSE_H
#define GRAIL_REDUCE_DAMPED_INVERSE_H

#include "backend/operations.h"

/** Mean of the diagonal[n] of a Gram matrix; GRAIL_ERROR_NUMERIC when it is 0, or not finite. */
grail_status mean_of_diagonal(int64_t n, const double *diagonal, double *mean) GRAIL_MUST_CHECK;

/**
 * Both triangles of G[n, n] <- (G + lambda I)^-1, of which the lower triangle is read, with
 * lambda = damping * mean diag G. When the factorisation fails, lambda is raised to
 * max(10 lambda, 1e-8 mean diag) up to six times. GRAIL_ERROR_NUMERIC as mean_of_diagonal, or when
 * G is indefinite. G is lost after a failure.
 */
grail_status damped_inverse(double damping, matrix gram, double *lambda) GRAIL_MUST_CHECK;

#endif
