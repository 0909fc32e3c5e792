/* What is done with f64 matrices around the operations of a backend, where factors or results are
 * arrays on the host. */
#ifndef GRAIL_ALGEBRA_PRODUCTS_H
#define GRAIL_ALGEBRA_PRODUCTS_H

#include "backend/operations.h"

/** Features per panel; a fit holds O times as many values beside its matrices. */
enum { FEATURE_PANEL = 256 };

/** The same, or as many as the instance wants rows at a time, where that is more; at most
 * `features`.
 */
int64_t feature_panel(const backend *b, int64_t features);

/** A row that holds values[n]; on the host it borrows them. It must not be written. matrix_free. */
grail_status import_row(backend *b, int64_t n, const double *values, matrix *out) GRAIL_MUST_CHECK;

/** A -= factor x y^T with arrays x[rows] and y[columns]; with `lower` only in the lower triangle.
 */
grail_status subtract_outer(bool lower, double factor, const double *x, const double *y,
                            matrix a) GRAIL_MUST_CHECK;

/** (1/n) sum_j values[j] */
double mean_of(int64_t n, const double *values);

/** out[i] = sum_j A[i, j] B[i, j] */
grail_status row_products(matrix a, matrix b, double *out) GRAIL_MUST_CHECK;

/** out[i] = sum_j A[i, j] x[j] */
grail_status vector_products(matrix a, const double *x, double *out) GRAIL_MUST_CHECK;

/** sums[0, i] += sum_j A[i, j] B[i, j]; scratch[1, rows] is overwritten. */
grail_status add_row_products(matrix a, matrix b, matrix scratch, matrix sums) GRAIL_MUST_CHECK;

/** Makes M a matrix of its rows rows[row_count] and columns columns[column_count] (NULL: the first
 * ones) in its own memory. Both lists ascend. */
grail_status keep_elements(const int64_t *rows, int64_t row_count, const int64_t *columns,
                           int64_t column_count, matrix *m) GRAIL_MUST_CHECK;

/** forms[m]: forms_i = d_i A d_i^T for the rows of D[m, n]; A[n, n] holds both triangles. */
grail_status quadratic_forms(matrix a, matrix d, double *forms) GRAIL_MUST_CHECK;
/** The same as a matrix forms[1, m]. */
grail_status quadratic_forms_make(matrix a, matrix d, matrix forms) GRAIL_MUST_CHECK;

#endif
