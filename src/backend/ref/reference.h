/* Dense f64 algebra of the reference backend, see backend.h for each contract. */
#ifndef GRAIL_BACKEND_REF_REFERENCE_H
#define GRAIL_BACKEND_REF_REFERENCE_H

#include "backend/backend.h"

void ref_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
              const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
              double *c, int64_t c_stride);
pivot_index ref_cholesky(int64_t n, double *a, int64_t stride);
void ref_cholesky_solve(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                        int64_t b_stride);
grail_status ref_eigen(int64_t n, double *a, double *values);

#endif
