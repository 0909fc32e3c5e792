#include "backend/cpu/panels.h"

#include "backend/cpu/blas.h"

#include <stddef.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define PRODUCT(name, features, vector, prefix, rows, vectors)                                     \
    __attribute__((target(features))) static void name(const panel_operands *o)                    \
    {                                                                                              \
        enum { WIDTH = sizeof(vector) / sizeof(float) };                                           \
        const float *a = o->a;                                                                     \
        const float *b = o->b;                                                                     \
        const int64_t a_row = o->a_row;                                                            \
        const int64_t a_step = o->a_step;                                                          \
        const int64_t b_step = o->b_step;                                                          \
        vector sums[rows][vectors];                                                                \
        _Pragma("GCC unroll 8") for (int i = 0; i < (rows); i++)                                   \
        {                                                                                          \
            _Pragma("GCC unroll 4") for (int j = 0; j < (vectors); j++)                            \
            {                                                                                      \
                sums[i][j] = prefix##_setzero_ps();                                                \
            }                                                                                      \
        }                                                                                          \
        for (int64_t p = o->k; p > 0; p--) {                                                       \
            vector right[vectors];                                                                 \
            _Pragma("GCC unroll 4") for (int j = 0; j < (vectors); j++)                            \
            {                                                                                      \
                right[j] = prefix##_loadu_ps(b + (int64_t)j * WIDTH);                              \
            }                                                                                      \
            _Pragma("GCC unroll 8") for (int i = 0; i < (rows); i++)                               \
            {                                                                                      \
                const vector left = prefix##_set1_ps(a[i * a_row]);                                \
                _Pragma("GCC unroll 4") for (int j = 0; j < (vectors); j++)                        \
                {                                                                                  \
                    sums[i][j] = prefix##_fmadd_ps(left, right[j], sums[i][j]);                    \
                }                                                                                  \
            }                                                                                      \
            a += a_step;                                                                           \
            b += b_step;                                                                           \
        }                                                                                          \
        _Pragma("GCC unroll 8") for (int i = 0; i < (rows); i++)                                   \
        {                                                                                          \
            _Pragma("GCC unroll 4") for (int j = 0; j < (vectors); j++)                            \
            {                                                                                      \
                prefix##_storeu_ps(o->c + i * o->c_step + (int64_t)j * WIDTH, sums[i][j]);         \
            }                                                                                      \
        }                                                                                          \
    }
PRODUCT(multiply_7x16, "avx512f", __m512, _mm512, 7, 1)
PRODUCT(multiply_7x32, "avx512f", __m512, _mm512, 7, 2)
PRODUCT(multiply_7x48, "avx512f", __m512, _mm512, 7, 3)
PRODUCT(multiply_7x64, "avx512f", __m512, _mm512, 7, 4)
PRODUCT(multiply_6x16, "avx2,fma", __m256, _mm256, 6, 2)

const panel_kernels *panel_kernels_suitable(void)
{
    static const panel_kernels avx512 = {
        .rows = 7,
        .width = 4 * PANEL_VECTOR,
        .gram = 512,
        .cross = 192,
        .of_vectors = {multiply_7x16, multiply_7x32, multiply_7x48, multiply_7x64}};
    static const panel_kernels avx2 = {
        .rows = 6, .width = PANEL_VECTOR, .gram = 192, .cross = 96, .of_vectors = {multiply_6x16}};
    const char *chosen = blas_kernel(); /* the user may choose, too */
    if (strcmp(chosen, "skx") == 0) {
        return &avx512;
    }
    return strcmp(chosen, "haswell") == 0 || strncmp(chosen, "zen", 3) == 0 ? &avx2 : NULL;
}
#else
const panel_kernels *panel_kernels_suitable(void)
{
    return NULL;
}
#endif
