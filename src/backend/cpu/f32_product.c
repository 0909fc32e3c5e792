#include "backend/cpu/f32_product.h"

#include "backend/cpu/blas.h"
#include "backend/cpu/onednn.h"

#include <pthread.h>
#include <string.h>

/* Measured on one core of a Xeon with AVX-512, products of 512 to 4096 a side: oneDNN 2.6 143 to
 * 158 GFLOP/s, BLIS 0.9 128 to 144. Other makers' processors were not measured. */
static bool prefers_onednn;

static void choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    prefers_onednn = __builtin_cpu_is("intel") && strcmp(blas_kernel(), "skx") == 0 &&
                     blas_kernel_choice() == BLAS_CHOICE_FEATURES;
#endif
}

f32_library f32_library_for(int64_t rows, int64_t columns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return prefers_onednn && rows >= F32_LEAST_ROWS && columns >= F32_LEAST_COLUMNS ? F32_ONEDNN
                                                                                    : F32_BLIS;
}

void f32_multiply(f32_library library, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, const float *a, int64_t a_stride, const float *b, int64_t b_stride,
                  float beta, float *c, int64_t c_stride)
{
    if (m > 0 && n > 0 &&
        (library != F32_ONEDNN || !onednn_multiply_f32(transpose_a, transpose_b, m, n, k, a,
                                                       a_stride, b, b_stride, beta, c, c_stride))) {
        blas_sgemm(transpose_a, transpose_b, m, n, k, 1.0F, a, a_stride, b, b_stride, beta, c,
                   c_stride);
    }
}
