/* The only file that includes BLIS, and that knows which of its kernels suit a CPU: BLIS 0.9 knows
 * no CPU younger than itself and takes its generic C kernels there, which reach a fifth of the
 * speed (measured on Zen 5: generic 78 GFLOP/s in f32, haswell 240, skx 425; zen, zen2 and zen3
 * equal haswell). */
#include "backend/cpu/blas.h"

#include <blis.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BLIS 0.9 reads BLIS_ARCH_TYPE as a decimal number, aborts on one it was not built for, and reads
 * any word as 0. */
static const struct {
    const char *name;
    arch_t id;
} kernels[] = {
    {"skx", BLIS_ARCH_SKX},         {"knl", BLIS_ARCH_KNL},
    {"haswell", BLIS_ARCH_HASWELL}, {"sandybridge", BLIS_ARCH_SANDYBRIDGE},
    {"penryn", BLIS_ARCH_PENRYN},   {"zen3", BLIS_ARCH_ZEN3},
    {"zen2", BLIS_ARCH_ZEN2},       {"zen", BLIS_ARCH_ZEN},
    {"generic", BLIS_ARCH_GENERIC},
};

enum { KERNEL_COUNT = sizeof kernels / sizeof kernels[0] };

static const char arch_variable[] = "BLIS_ARCH_TYPE";
enum { NUMBER_SIZE = 16 };
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool started;
static blas_choice choice = BLAS_CHOICE_LIBRARY;

const char *blas_suitable_kernel(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return "skx";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "haswell";
    }
#endif
    return NULL;
}

static void number_of(int kernel, char number[NUMBER_SIZE])
{
    snprintf(number, NUMBER_SIZE, "%d", (int)kernels[kernel].id);
}

/* Index in the table of a number, or with `words` also of a name; -1 of anything else. */
static int find_kernel(const char *text, bool words)
{
    for (int i = 0; text != NULL && i < KERNEL_COUNT; i++) {
        char number[NUMBER_SIZE];
        number_of(i, number);
        if (strcmp(text, number) == 0 || (words && strcmp(text, kernels[i].name) == 0)) {
            return i;
        }
    }
    return -1;
}

const char *blas_setting(void)
{
    static _Thread_local char setting[NUMBER_SIZE];
    const char *given = getenv(arch_variable);
    int kernel = find_kernel(given, true);
    if (find_kernel(given, false) >= 0) {
        return NULL;
    }
    if (kernel < 0) {
        kernel = find_kernel(blas_suitable_kernel(), true);
    }
    if (kernel < 0 && given == NULL) {
        return NULL;
    }
    number_of(kernel < 0 ? find_kernel("generic", true) : kernel, setting);
    return setting;
}

/* BLIS would abort on a value that it does not know, so it is not started then. */
static void start_blis(void)
{
    const char *given = getenv(arch_variable);
    const int kernel = find_kernel(given, false);
    const int suitable = find_kernel(blas_suitable_kernel(), true);
    if (given != NULL && kernel < 0) {
        return;
    }
    choice = given == NULL        ? BLAS_CHOICE_LIBRARY
             : kernel == suitable ? BLAS_CHOICE_FEATURES
                                  : BLAS_CHOICE_USER;
    bli_init();
    started = true;
}

grail_status blas_start(void)
{
    pthread_once(&once, start_blis);
    if (!started) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "the environment variable BLIS_ARCH_TYPE is '%s', expected the number of a "
            "kernel set, such as 3 (haswell) or 0 (skx); unset it",
            getenv(arch_variable) == NULL ? "" : getenv(arch_variable));
    }
    return GRAIL_OK;
}

const char *blas_kernel(void)
{
    pthread_once(&once, start_blis);
    return started ? bli_arch_string(bli_arch_query_id()) : "none";
}

blas_choice blas_kernel_choice(void)
{
    pthread_once(&once, start_blis);
    return choice;
}

const char *blas_version(void)
{
    return bli_info_get_version_str();
}

static rntm_t runtime(void)
{
    rntm_t r;
    bli_rntm_init_from_global(&r); /* what BLIS 0.9 and 1.x both have */
    bli_rntm_set_num_threads(1, &r);
    return r;
}

static trans_t transposition(bool transpose)
{
    return transpose ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE;
}

/* BLIS takes its read-only operands without const. */
static float *readable_f32(const float *p)
{
    return (float *)(uintptr_t)p;
}

static double *readable_f64(const double *p)
{
    return (double *)(uintptr_t)p;
}

void blas_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta,
                float *c, int64_t c_stride)
{
    rntm_t r = runtime();
    bli_sgemm_ex(transposition(transpose_a), transposition(transpose_b), m, n, k, &alpha,
                 readable_f32(a), a_stride, 1, readable_f32(b), b_stride, 1, &beta, c, c_stride, 1,
                 NULL, &r);
}

void blas_dgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
                const double *a, int64_t a_stride, const double *b, int64_t b_stride, double beta,
                double *c, int64_t c_stride)
{
    rntm_t r = runtime();
    bli_dgemm_ex(transposition(transpose_a), transposition(transpose_b), m, n, k, &alpha,
                 readable_f64(a), a_stride, 1, readable_f64(b), b_stride, 1, &beta, c, c_stride, 1,
                 NULL, &r);
}

void blas_ssyrk(int64_t n, int64_t k, const float *a, int64_t a_stride, float *c, int64_t c_stride)
{
    rntm_t r = runtime();
    float one = 1.0F;
    float zero = 0.0F;
    bli_ssyrk_ex(BLIS_LOWER, BLIS_TRANSPOSE, n, k, &one, readable_f32(a), a_stride, 1, &zero, c,
                 c_stride, 1, NULL, &r);
}

void blas_dsyrk_subtract(int64_t n, int64_t k, const double *a, int64_t a_stride, double *c,
                         int64_t c_stride)
{
    rntm_t r = runtime();
    double minus_one = -1.0;
    double one = 1.0;
    bli_dsyrk_ex(BLIS_LOWER, BLIS_NO_TRANSPOSE, n, k, &minus_one, readable_f64(a), a_stride, 1,
                 &one, c, c_stride, 1, NULL, &r);
}

void blas_dtrsm(bool transpose_l, int64_t m, int64_t n, const double *l, int64_t l_stride,
                double *b, int64_t b_stride)
{
    rntm_t r = runtime();
    double one = 1.0;
    bli_dtrsm_ex(BLIS_RIGHT, BLIS_LOWER, transposition(transpose_l), BLIS_NONUNIT_DIAG, m, n, &one,
                 readable_f64(l), l_stride, 1, b, b_stride, 1, NULL, &r);
}

void blas_dtrmm(bool right, bool transpose_l, int64_t m, int64_t n, double alpha, const double *l,
                int64_t l_stride, double *b, int64_t b_stride)
{
    rntm_t r = runtime();
    bli_dtrmm_ex(right ? BLIS_RIGHT : BLIS_LEFT, BLIS_LOWER, transposition(transpose_l),
                 BLIS_NONUNIT_DIAG, m, n, &alpha, readable_f64(l), l_stride, 1, b, b_stride, 1,
                 NULL, &r);
}
