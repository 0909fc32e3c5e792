/* Instances and matrices for tests of what computes with them. */
#ifndef GRAIL_TESTS_SUPPORT_MATRICES_H
#define GRAIL_TESTS_SUPPORT_MATRICES_H

#include "backend/operations.h"
#include "support/support.h"

/** Instances of `ref` and `cpu` (of `guarded` instead where the environment has GRAIL_TEST_GUARDED,
 * as tests named *_guarded have) that the tests of a program share, from their group setup to their
 * group teardown. The last test of such a program is that all their matrices were freed. */
extern backend *on_ref;
extern backend *on_cpu;
int open_backends(void **state);
int close_backends(void **state);

/** A packed f64 matrix with these values; matrix_free. */
matrix support_matrix(backend *b, int64_t rows, int64_t columns, const double *values);
/** Rows of an instance's values, whose f32 rows lie `stride` apart; matrix_free. */
matrix support_rows(backend *b, int64_t rows, int64_t columns, int64_t stride, const float *values);
/** The values of an f64 matrix, packed; memory_free. */
double *support_values(matrix m);
/** One element of an f64 matrix. */
double support_element(matrix m, int64_t row, int64_t column);
void support_set_element(matrix m, int64_t row, int64_t column, double value);

#endif
