/* The products of the cpu backend, row-major with row strides, over BLIS. Each runs on the calling
 * thread alone: the caller shares the work out with parallel_for. Sizes may be zero. */
#ifndef GRAIL_BACKEND_CPU_BLAS_H
#define GRAIL_BACKEND_CPU_BLAS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/** C[m, n] = alpha op(A) op(B) + beta C, op(A) [m, k], op(B) [k, n]; beta = 0 does not read C. */
void blas_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta,
                float *c, int64_t c_stride);
/** y[m] = A[m, n] x + beta y; beta = 0 does not read y. */
void blas_sgemv(int64_t m, int64_t n, const float *a, int64_t a_stride, const float *x, float beta,
                float *y);
void blas_dgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
                double *c, int64_t c_stride);

/** Lower triangle of C[n, n] = A[k, n]^T A; the upper one is left alone. */
void blas_ssyrk(int64_t n, int64_t k, const float *a, int64_t a_stride, float *c, int64_t c_stride);

/** Lower triangle of C[n, n] -= A[n, k] A^T; the upper one is left alone. */
void blas_dsyrk_subtract(int64_t n, int64_t k, const double *a, int64_t a_stride, double *c,
                         int64_t c_stride);

/** B[m, n] <- alpha op(L) B with L[m, m], or alpha B op(L) with L[n, n] when `right`; op is
 * transposition when the flag is set; L lower triangular. */
void blas_dtrmm(bool right, bool transpose_l, int64_t m, int64_t n, double alpha, const double *l,
                int64_t l_stride, double *b, int64_t b_stride);

/** How the kernels were chosen. */
typedef enum blas_choice {
    BLAS_CHOICE_FEATURES, /* by the CPU's instruction sets */
    BLAS_CHOICE_USER,     /* by BLIS_ARCH_TYPE */
    BLAS_CHOICE_LIBRARY   /* by BLIS itself */
} blas_choice;

/** Kernel set that suits this CPU ("skx", "haswell"), or NULL where BLIS decides. */
const char *blas_suitable_kernel(void);

/** Starts BLIS with the kernels that BLIS_ARCH_TYPE names, by number or name, else with those that
 * suit this CPU; later calls do nothing. The environment is only read. */
void blas_start(void);

/** Kernel set in use, such as "skx"; starts BLIS. */
const char *blas_kernel(void);
blas_choice blas_kernel_choice(void);
const char *blas_version(void);

/** How many products at once have found memory to pack both operands, which BLIS keeps for later
 * ones. BLIS has been started. */
int64_t blas_packing_places(void);

#endif
