/* The table of the cpu backend, and the slots that are one product. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/blas.h"

#include "base/parallel.h"

#include <string.h>

static void from_f32(int64_t count, const float *in, void *out)
{
    memcpy(out, in, (size_t)count * sizeof *in);
}

static void to_f32(int64_t count, const void *in, float *out)
{
    memcpy(out, in, (size_t)count * sizeof *out);
}

typedef struct bias_rows {
    int64_t width;
    const float *bias;
    float *y;
} bias_rows;

static void set_bias(int64_t begin, int64_t end, void *context)
{
    const bias_rows *b = context;
    for (int64_t row = begin; row < end; row++) {
        memcpy(b->y + row * b->width, b->bias, (size_t)b->width * sizeof *b->y);
    }
}

/* The bias goes into Y first and the product is added to it: one pass less over Y. */
static void linear(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                   const void *bias, void *y)
{
    enum { ROWS = 16 };
    bias_rows b = {out, bias, y};
    if (bias != NULL) {
        parallel_for(rows, ROWS, set_bias, &b);
    }
    blas_sgemm(parallel_threads(), false, true, rows, out, in, 1.0F, x, in, weight, in,
               bias != NULL ? 1.0F : 0.0F, y, out);
}

static void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                 const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
                 double *c, int64_t c_stride)
{
    blas_dgemm(parallel_threads(), transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b,
               b_stride, beta, c, c_stride);
}

const backend backend_cpu = {
    .name = "cpu",
    .element_size = sizeof(float),
    .from_f32 = from_f32,
    .to_f32 = to_f32,
    .linear = linear,
    .rms_norm = cpu_rms_norm,
    .rope = cpu_rope,
    .attention = cpu_attention,
    .activation = cpu_activation,
    .multiply = cpu_multiply,
    .add = cpu_add,
    .subtract = cpu_subtract,
    .cross_entropy = cpu_cross_entropy,
    .find_non_finite = cpu_find_non_finite,
    .gram = cpu_gram,
    .cross = cpu_cross,
    .column_sums = cpu_column_sums,
    .gemm = gemm,
    .cholesky = cpu_cholesky,
    .cholesky_solve = cpu_cholesky_solve,
    .eigen = cpu_eigen,
};
