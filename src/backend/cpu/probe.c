#include "backend/cpu/probe.h"

#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"

#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The text after the colon of the first line that starts with `key`. An absent file is an ordinary
 * answer: not every system has /proc. */
static bool read_value(const char *path, const char *key, char *out, size_t size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        found = strncmp(line, key, strlen(key)) == 0 && colon != NULL;
        if (found) {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static void add_feature(char *features, size_t size, bool present, const char *name)
{
    const size_t used = strlen(features);
    if (present) {
        snprintf(features + used, size - used, "%s%s", used > 0 ? " " : "", name);
    }
}

static int usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static const char *choice_text(blas_choice choice)
{
    switch (choice) {
    case BLAS_CHOICE_FEATURES:
        return "from the instruction sets of this CPU";
    case BLAS_CHOICE_USER:
        return "by BLIS_ARCH_TYPE";
    case BLAS_CHOICE_LIBRARY:
        break;
    }
    return "by BLIS";
}

/* haswell's kernels and the three zen ones are the same code with other block sizes. */
static bool kernel_suits(const char *kernel, const char *suitable)
{
    return suitable == NULL || strcmp(kernel, suitable) == 0 ||
           (strcmp(suitable, "haswell") == 0 && strncmp(kernel, "zen", 3) == 0);
}

static const char *remedy_text(const char *kernel, blas_choice choice)
{
    const char *suitable = blas_suitable_kernel();
    if (kernel_suits(kernel, suitable)) {
        return NULL;
    }
    if (choice == BLAS_CHOICE_USER) {
        return "unset BLIS_ARCH_TYPE; grail then chooses a faster kernel for this CPU";
    }
    return strcmp(suitable, "skx") == 0
               ? "set BLIS_ARCH_TYPE=0 (skx) in the environment; BLIS does not know this CPU"
               : "set BLIS_ARCH_TYPE=3 (haswell) in the environment; BLIS does not know this CPU";
}

void cpu_probe_fill(grail_machine *out)
{
    const machine_memory memory = machine_memory_read("");
    const char *kernel = blas_kernel();
    *out = (grail_machine){
        .cores = usable_cores(),
        .threads = parallel_threads(),
        .blas_name = "BLIS",
        .blas_version = blas_version(),
        .onednn_version = onednn_version(),
        .kernel = kernel,
        .kernel_choice = choice_text(blas_kernel_choice()),
        .remedy = remedy_text(kernel, blas_kernel_choice()),
        .memory_total = memory.total,
        .memory_available = memory.available,
    };
    if (!read_value("/proc/cpuinfo", "model name", out->cpu, sizeof out->cpu)) {
        snprintf(out->cpu, sizeof out->cpu, "unknown");
    }
    const size_t size = sizeof out->features;
    out->features[0] = '\0';
#if defined(__x86_64__)
    enum { AMX_TILE_BIT = 1 << 24 }; /* cpuid leaf 7, subleaf 0, edx */
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    __builtin_cpu_init();
    add_feature(out->features, size, __builtin_cpu_supports("sse4.2"), "sse4.2");
    add_feature(out->features, size, __builtin_cpu_supports("avx2"), "avx2");
    add_feature(out->features, size, __builtin_cpu_supports("fma"), "fma");
    add_feature(out->features, size, __builtin_cpu_supports("avx512f"), "avx512f");
    add_feature(out->features, size, __builtin_cpu_supports("avx512dq"), "avx512dq");
    add_feature(out->features, size, __builtin_cpu_supports("avx512bw"), "avx512bw");
    add_feature(out->features, size, __builtin_cpu_supports("avx512vl"), "avx512vl");
    add_feature(out->features, size, __builtin_cpu_supports("avx512bf16"), "avx512_bf16");
    add_feature(out->features, size,
                __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & AMX_TILE_BIT) != 0, "amx");
#endif
}

/* Rows of the matrices; the smaller ones, a tenth of the work, where not even a second may be
 * taken. */
enum { ORDER = 2048, BRIEF_ORDER = 1024 };

typedef enum product_kind { PRODUCT_F32, PRODUCT_F64, PRODUCT_BF16 } product_kind;

/* One product in a buffer of 3 order^2 doubles, which serves all types. The buffer holds zeros: the
 * rate does not depend on the values, nor do zeros depend on the order of a weight. */
static grail_status run_product(product_kind kind, int64_t order, double *matrices)
{
    const grail_dtype type = kind == PRODUCT_F64 ? GRAIL_DTYPE_F64 : GRAIL_DTYPE_F32;
    const grail_dtype weight_type = kind == PRODUCT_BF16 ? GRAIL_DTYPE_BF16 : type;
    const unsigned char *memory = (unsigned char *)matrices;
    const size_t bytes = (size_t)(order * order) * element_size(type);
    const matrix x = host_matrix(type, memory, order, order);
    matrix weight = host_matrix(weight_type, memory + bytes, order, order);
    const matrix y = host_matrix(type, memory + 2 * bytes, order, order);
    backend owner = {.kind = &backend_cpu_bf16}; /* which says that a weight of BF16 is ordered */
    weight.owner = &owner;
    const operation linear = {.m = {x, weight, no_matrix, y}};
    switch (kind) {
    case PRODUCT_F32:
        return cpu_linear(&linear);
    case PRODUCT_BF16:
        return cpu_bf16_linear(&linear);
    case PRODUCT_F64:
        break;
    }
    return cpu_gemm(&(operation){.m = {x, weight, y}, .with = {.transpose_b = true, .alpha = 1.0}});
}

/* The best of several: other work on the machine only ever makes a run slower. */
static grail_status best_gflops(double seconds, product_kind kind, double *matrices, double *out)
{
    const int64_t order = seconds < 1.0 / 3.0 ? BRIEF_ORDER : ORDER;
    const double end = clock_seconds() + seconds;
    double least = (double)INFINITY;
    CHECK(run_product(kind, order, matrices));
    do {
        const double begun = clock_seconds();
        CHECK(run_product(kind, order, matrices));
        least = fmin(least, clock_seconds() - begun);
    } while (clock_seconds() < end);
    *out = 2e-9 * pow((double)order, 3.0) / least;
    return GRAIL_OK;
}

grail_status cpu_measure_speed(double seconds, cpu_speed *out)
{
    grail_status status = GRAIL_OK;
    double *matrices = NULL;
    *out = (cpu_speed){0};
    TRY(cpu_start());
    TRY(memory_new(&matrices, 3 * (size_t)ORDER * ORDER, sizeof matrices[0]));
    TRY(best_gflops(seconds / 3.0, PRODUCT_F32, matrices, &out->sgemm_gflops));
    TRY(best_gflops(seconds / 3.0, PRODUCT_F64, matrices, &out->dgemm_gflops));
    if (onednn_bf16_support() != BF16_NONE) {
        TRY(best_gflops(seconds / 3.0, PRODUCT_BF16, matrices, &out->bf16_gflops));
    }
out:
    memory_free(matrices);
    return status;
}

/* -- whether bf16 pays ------------------------------------------------------------------------- */

static pthread_once_t tried = PTHREAD_ONCE_INIT;
static bool pays; /* not written after the trial */

bool cpu_bf16_pays_at(const cpu_speed *speed)
{
    const double least_gain = 1.2; /* a smaller one is lost to the work around products */
    return onednn_bf16_support() == BF16_TILES ||
           (onednn_bf16_support() == BF16_VECTORS &&
            speed->bf16_gflops > least_gain * speed->sgemm_gflops);
}

static void try_bf16(void)
{
    const double seconds = 2.0;
    cpu_speed speed = {0};
    const bool needs_trial = onednn_bf16_support() == BF16_VECTORS;
    pays = (!needs_trial || cpu_measure_speed(seconds, &speed) == GRAIL_OK) &&
           cpu_bf16_pays_at(&speed);
}

bool cpu_bf16_pays(void)
{
    pthread_once(&tried, try_bf16);
    return pays;
}
