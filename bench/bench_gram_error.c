/* How far Gram matrices in f32, from parts of bf16 and of values rounded to bf16 are from f64:
 * --width 4096 --rows 4096
 * --hundredths 0 (the mean of the columns, whose deviation is 1) --threads N. An error is the
 * largest |G_ij - exact_ij| / (|x_i| |x_j|) of the lower triangle. */
#include "bench.h"

#include "backend/cpu/kernels.h"
#include "base/random.h"

#include <math.h>

static void *block_of(int64_t count, size_t size)
{
    void *block = NULL;
    bench_check(memory_new(&block, (size_t)count, size));
    return block;
}

static void fill(int64_t count, double mean, float *x, double *wide)
{
    random_state random;
    random_seed(&random, 1, 0);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(mean + random_normal(&random));
        wide[i] = (double)x[i];
    }
}

/* The squared lengths of the columns are on the diagonal of `exact`. */
static double worst_error(int64_t n, const double *g, const double *exact)
{
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double off = fabs(g[i * n + j] - exact[i * n + j]);
            worst = fmax(worst, off / sqrt(exact[i * n + i] * exact[j * n + j]));
        }
    }
    return worst;
}

static matrix square(int64_t n, double *memory)
{
    return host_matrix(GRAIL_DTYPE_F64, memory, n, n);
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    const int64_t n = bench_option(count, arguments, "width", 4096);
    const int64_t rows = bench_option(count, arguments, "rows", 4096);
    const double mean = 0.01 * (double)bench_option(count, arguments, "hundredths", 0);
    float *x = block_of(rows * n, sizeof *x);
    double *wide = block_of(rows * n, sizeof *wide);
    double *exact = block_of(n * n, sizeof *exact);
    double *single = block_of(n * n, sizeof *single);
    double *split = block_of(n * n, sizeof *split);
    double *rounded = block_of(n * n, sizeof *rounded);
    fill(rows * n, mean, x, wide);
    const matrix values = host_matrix(GRAIL_DTYPE_F32, x, rows, n);
    const matrix doubles = host_matrix(GRAIL_DTYPE_F64, wide, rows, n);
    bench_check(cpu_gemm(&(operation){.m = {doubles, doubles, square(n, exact)},
                                      .with = {.transpose_a = true, .alpha = 1.0}}));
    bench_check(cpu_gram(&(operation){.m = {values, square(n, single)}}));
    bench_check(cpu_split_gram(&(operation){.m = {values, square(n, split)}}));
    bench_check(cpu_rounded_gram(&(operation){.m = {values, square(n, rounded)}}));
    const double error = worst_error(n, single, exact);
    const double parts = worst_error(n, split, exact);
    bench_print(json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "bench", "gram_error",
                          "width", (json_int_t)n, "rows", (json_int_t)rows, "mean", mean, "f32",
                          error, "parts", parts, "ratio", parts / error, "rounded",
                          worst_error(n, rounded, exact)));
    memory_free(rounded);
    memory_free(split);
    memory_free(single);
    memory_free(exact);
    memory_free(wide);
    memory_free(x);
    return 0;
}
