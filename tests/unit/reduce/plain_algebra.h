/* Plain f64 loops: the oracle of the tests of eliminations and of the selectors that use them. */
#ifndef GRAIL_TESTS_UNIT_REDUCE_PLAIN_ALGEBRA_H
#define GRAIL_TESTS_UNIT_REDUCE_PLAIN_ALGEBRA_H

#include "support/support.h"

/** Standard normals; memory_free. */
double *plain_normal(int64_t count, uint64_t seed);
double *plain_copy(int64_t count, const double *values);

/** C[m, n] += A[k, m]^T B[k, n] */
void plain_add_product(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                       double *c);
/** X^T X of X[rows, n] + shift I; memory_free. */
double *plain_gram(int64_t rows, int64_t n, double shift, const double *x);
/** A[n, n] <- A^-1 of a positive definite A. */
void plain_invert(int64_t n, double *a);
/** out = the listed rows and columns of A[., n]. */
void plain_block(int64_t n, const double *a, int64_t rows, const int64_t *row, int64_t columns,
                 const int64_t *column, double *out);
/** tr(A B) of symmetric A[n, n] and B. */
double plain_trace(int64_t n, const double *a, const double *b);

/** min tr((W - W') H (W - W')^T) over W'[m, n] that are 0 in the columns of removed features:
 * W' = W H[:, P] H[P, P]^-1. fitted[m, n], unless NULL, becomes W'. */
double plain_refit(int64_t m, int64_t n, const double *h, const double *w, const bool *kept,
                   double *fitted);

#endif
