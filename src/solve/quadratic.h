/* Quadratic forms of many rows in one symmetric matrix. */
#ifndef GRAIL_SOLVE_QUADRATIC_H
#define GRAIL_SOLVE_QUADRATIC_H

#include "backend/backend.h"

/** Features per panel; a solve holds O times as many values beside its matrices. */
enum { SOLVE_PANEL = 256 };

/** sum_i a_i b_i */
double dot_product(int64_t count, const double *a, const double *b);

/** forms[m]: forms_i = d_i A d_i^T for the rows of D[m, n]; A[n, n] holds both triangles. */
grail_status quadratic_forms(const backend *b, int64_t n, const double *a, int64_t m,
                             const double *d, double *forms) GRAIL_MUST_CHECK;

#endif
