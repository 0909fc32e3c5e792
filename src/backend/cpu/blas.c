/* The only file that includes BLIS, and that knows which of its kernels suit a CPU: BLIS 0.9 knows
 * no CPU younger than itself and takes its generic C kernels there, which reach a fifth of the
 * speed (measured on Zen 5: generic 78 GFLOP/s in f32, haswell 240, skx 425; zen, zen2 and zen3
 * equal haswell). */
#include "backend/cpu/blas.h"
#include "backend/cpu/packing.h"

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

/* Index in the table of a number or a name; -1 of anything else. */
static int find_kernel(const char *text)
{
    for (int i = 0; text != NULL && i < KERNEL_COUNT; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)kernels[i].id);
        if (strcmp(text, number) == 0 || strcmp(text, kernels[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

/* -- what BLIS asks the environment -------------------------------------------------------------
 *
 * It can be told its kernels by the environment alone, which is the program's, and which other
 * threads may be reading. So where BLIS lies in the same library (GRAIL_BLIS_INSIDE), the linker
 * puts these functions in the place of its own (cmake/dependencies.cmake). */

static int answer = -1; /* index in the table, -1: what the environment says */

#ifdef GRAIL_BLIS_INSIDE
gint_t __real_bli_env_get_var(const char *name, gint_t fallback); /* BLIS's own */
gint_t __wrap_bli_env_get_var(const char *name, gint_t fallback);
char *__wrap_bli_env_get_str(const char *name);

gint_t __wrap_bli_env_get_var(const char *name, gint_t fallback)
{
    return answer >= 0 && strcmp(name, arch_variable) == 0 ? (gint_t)kernels[answer].id
                                                           : __real_bli_env_get_var(name, fallback);
}

/* BLIS 2.x asks for the text, too, and takes names. */
char *__wrap_bli_env_get_str(const char *name)
{
    static char number[16];
    if (answer < 0 || strcmp(name, arch_variable) != 0) {
        return getenv(name);
    }
    snprintf(number, sizeof number, "%d", (int)kernels[answer].id);
    return number;
}
#endif

/* -- how BLIS orders operands: packing.h where that is faster, else its own way -------------------
 */

#ifdef GRAIL_BLIS_PACKS
#define PACKING                                                                                    \
    (conj_t conjugate, pack_t schema, dim_t rows, dim_t height, dim_t length, dim_t full_length,   \
     float *scale, float *from, inc_t row_step, inc_t step, float *into, inc_t stride,             \
     cntx_t *context)

void __real_bli_spackm_cxk PACKING;
void __wrap_bli_spackm_cxk PACKING;

void __wrap_bli_spackm_cxk PACKING
{
    const packing p = {rows, height, length, full_length, row_step, step};
    if (*scale != 1.0F || stride != height || !pack_f32(&p, from, into)) {
        __real_bli_spackm_cxk(conjugate, schema, rows, height, length, full_length, scale, from,
                              row_step, step, into, stride, context);
    }
}
#endif

/* BLIS would abort on a value that it does not know. */
static void start_blis(void)
{
    const char *given = getenv(arch_variable);
    const int users = find_kernel(given);
    answer = users >= 0 ? users : find_kernel(blas_suitable_kernel());
    if (answer < 0 && given != NULL) {
        answer = find_kernel("generic");
    }
    bli_init();
    if (answer >= 0 && bli_arch_query_id() == kernels[answer].id) {
        choice = users >= 0 ? BLAS_CHOICE_USER : BLAS_CHOICE_FEATURES;
    }
}

void blas_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_blis);
}

const char *blas_kernel(void)
{
    blas_start();
    return bli_arch_string(bli_arch_query_id());
}

blas_choice blas_kernel_choice(void)
{
    blas_start();
    return choice;
}

const char *blas_version(void)
{
    return bli_info_get_version_str();
}

static int64_t blocks_for(packbuf_t operand, pba_t *kept)
{
    const dim_t index = (dim_t)bli_packbuf_index(operand);
    return (int64_t)bli_pool_num_blocks(bli_pba_pool(index, kept));
}

int64_t blas_packing_places(void)
{
    pba_t *kept = bli_pba_query();
    bli_pba_lock(kept);
    const int64_t left = blocks_for(BLIS_BUFFER_FOR_A_BLOCK, kept);
    const int64_t right = blocks_for(BLIS_BUFFER_FOR_B_PANEL, kept);
    bli_pba_unlock(kept);
    return left < right ? left : right;
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

void blas_sgemv(int64_t m, int64_t n, const float *a, int64_t a_stride, const float *x, float beta,
                float *y)
{
    rntm_t r = runtime();
    float one = 1.0F;
    bli_sgemv_ex(BLIS_NO_TRANSPOSE, BLIS_NO_CONJUGATE, m, n, &one, readable_f32(a), a_stride, 1,
                 readable_f32(x), 1, &beta, y, 1, NULL, &r);
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

void blas_dtrmm(bool right, bool transpose_l, int64_t m, int64_t n, double alpha, const double *l,
                int64_t l_stride, double *b, int64_t b_stride)
{
    rntm_t r = runtime();
    bli_dtrmm_ex(right ? BLIS_RIGHT : BLIS_LEFT, BLIS_LOWER, transposition(transpose_l),
                 BLIS_NONUNIT_DIAG, m, n, &alpha, readable_f64(l), l_stride, 1, b, b_stride, 1,
                 NULL, &r);
}
