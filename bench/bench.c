#include "bench.h"

#include "backend/cpu/probe.h"
#include "base/parallel.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t bench_option(int count, char **arguments, const char *name, int64_t fallback)
{
    for (int i = 1; i + 1 < count; i++) {
        if (strncmp(arguments[i], "--", 2) == 0 && strcmp(arguments[i] + 2, name) == 0) {
            return (int64_t)strtoll(arguments[i + 1], NULL, 10);
        }
    }
    return fallback;
}

void bench_set_threads(int count, char **arguments)
{
    parallel_set_threads((int)bench_option(count, arguments, "threads", parallel_threads()));
}

static backend *instance; /* NULL = the host's */

void bench_set_precision(int count, char **arguments)
{
    const int64_t bf16 = bench_option(count, arguments, "bf16", 0);
    if (bf16 != 0) {
        const backend_options options = {.precision = bf16 == 1 ? "bf16" : "bf16-gram"};
        bench_check(backend_open("cpu", &options, &instance));
    }
}

void bench_set_backend(int count, char **arguments)
{
    for (int i = 1; i + 1 < count; i++) {
        if (strcmp(arguments[i], "--backend") == 0) {
            bench_check(backend_open(arguments[i + 1], NULL, &instance));
        }
    }
}

void bench_check(grail_status status)
{
    if (status != GRAIL_OK) {
        fprintf(stderr, "%s\n", grail_error_message());
        exit(EXIT_FAILURE);
    }
}

matrix bench_matrix(grail_dtype type, int64_t rows, int64_t columns)
{
    matrix m = {0};
    bench_check(matrix_new(instance != NULL ? instance : backend_host(), type, rows, columns, &m));
    return m;
}

matrix bench_normal_matrix(int64_t rows, int64_t columns, uint64_t seed)
{
    const matrix m = bench_matrix(GRAIL_DTYPE_F32, rows, columns);
    host_view v = {0};
    random_state random;
    random_seed(&random, seed, 0);
    bench_check(host_view_open(m, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t i = 0; i < matrix_count(m); i++) {
        ((float *)v.values)[i] = (float)random_normal(&random);
    }
    bench_check(host_view_close(&v));
    return m;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts the values. */
static double median(int64_t count, double *values)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2.0;
}

static double peak_gflops(bench_peak peak)
{
    cpu_speed speed;
    bench_check(cpu_measure_speed(0.5, &speed));
    return peak == BENCH_DGEMM ? speed.dgemm_gflops
           : instance != NULL  ? speed.bf16_gflops
                               : speed.sgemm_gflops;
}

void bench_run(json_t *report, int64_t runs, double flops, bench_peak peak, bench_body prepare,
               bench_body body, void *context)
{
    double *values = NULL;
    bench_check(memory_new(&values, (size_t)runs * 3, sizeof *values));
    double *seconds = values;
    double *peaks = values + runs;
    double *ratios = peaks + runs;
    for (int64_t run = -1; run < runs; run++) {
        const double rate = peak_gflops(peak);
        if (prepare != NULL) {
            prepare(context);
        }
        const double start = bench_now();
        body(context);
        const double elapsed = bench_now() - start;
        if (run >= 0) {
            seconds[run] = elapsed;
            peaks[run] = rate;
            ratios[run] = 1e-9 * flops / elapsed / rate;
        }
    }
    const double typical = median(runs, seconds);
    bench_check(json_put(report, "precision",
                         json_string(instance != NULL ? backend_precision(instance) : "f32")));
    bench_check(json_put(report, "threads", json_integer(parallel_threads())));
    bench_check(json_put(report, "runs", json_integer(runs)));
    bench_check(json_put(report, "seconds", json_real(typical)));
    bench_check(json_put(report, "gflops", json_real(1e-9 * flops / typical)));
    bench_check(json_put(report, "peak",
                         json_string(peak == BENCH_DGEMM ? "dgemm"
                                     : instance != NULL  ? "bf16"
                                                         : "sgemm")));
    bench_check(json_put(report, "peak_gflops", json_real(median(runs, peaks))));
    bench_check(json_put(report, "ratio", json_real(median(runs, ratios))));
    memory_free(values);
}

void bench_print(json_t *report)
{
    json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(report);
}
