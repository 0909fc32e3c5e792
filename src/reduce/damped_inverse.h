/* Factors and inverses of Gram matrices with a little of the identity added. */
#ifndef GRAIL_REDUCE_DAMPED_INVERSE_H
#define GRAIL_REDUCE_DAMPED_INVERSE_H

#include "backend/operations.h"

/** GRAIL_ERROR_NUMERIC when the mean of a Gram matrix's diagonal is 0, or not finite. */
grail_status check_diagonal(double mean) GRAIL_MUST_CHECK;

/**
 * Lower triangle of G[n, n] <- L with L L^T = G + lambda I, of which the lower triangle is read,
 * with lambda and errors as damped_inverse. The strict upper triangle is scratch.
 */
grail_status damped_cholesky(double damping, matrix gram, double *lambda) GRAIL_MUST_CHECK;

/**
 * Both triangles of G[n, n] <- (G + lambda I)^-1, of which the lower triangle is read, with
 * lambda = damping * mean diag G, or as it has to be raised (algebra/damped.h). GRAIL_ERROR_NUMERIC
 * as check_diagonal, or when G is indefinite. G is lost after a failure.
 */
grail_status damped_inverse(double damping, matrix gram, double *lambda) GRAIL_MUST_CHECK;

#endif
