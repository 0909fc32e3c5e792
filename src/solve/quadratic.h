/* Products of the rows of f64 matrices, whose results are arrays on the host, and what else a solve
 * needs around the operations of a backend. */
#ifndef GRAIL_SOLVE_QUADRATIC_H
#define GRAIL_SOLVE_QUADRATIC_H

#include "backend/operations.h"

/** Features per panel; a solve holds O times as many values beside its matrices. */
enum { SOLVE_PANEL = 256 };

/** A row that holds values[n]; on the host it borrows them. It must not be written. matrix_free. */
grail_status import_row(backend *b, int64_t n, const double *values, matrix *out) GRAIL_MUST_CHECK;

/** A -= x y^T with arrays x[rows] and y[columns]; with `lower` only in the lower triangle. */
grail_status subtract_outer(bool lower, const double *x, const double *y,
                            matrix a) GRAIL_MUST_CHECK;

/** out[i] = sum_j A[i, j] B[i, j] */
grail_status row_products(matrix a, matrix b, double *out) GRAIL_MUST_CHECK;

/** out[i] = sum_j A[i, j] x[j] */
grail_status vector_products(matrix a, const double *x, double *out) GRAIL_MUST_CHECK;

/** sums[0, i] += sum_j A[i, j] B[i, j]; scratch[1, rows] is overwritten. */
grail_status add_row_products(matrix a, matrix b, matrix scratch, matrix sums) GRAIL_MUST_CHECK;

/** forms[m]: forms_i = d_i A d_i^T for the rows of D[m, n]; A[n, n] holds both triangles. */
grail_status quadratic_forms(matrix a, matrix d, double *forms) GRAIL_MUST_CHECK;

#endif
