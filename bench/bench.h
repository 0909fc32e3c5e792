/* What the benchmarks share: options, random data, repeated timing against the peak of the same
 * moment, and the JSON report. A benchmark exits with 1 and a message on any failure. */
#ifndef GRAIL_BENCH_H
#define GRAIL_BENCH_H

#include "backend/operations.h"
#include "base/json.h"

/** Value of "--name N" on the command line, or `fallback`. */
int64_t bench_option(int count, char **arguments, const char *name, int64_t fallback);

/** Sets the thread count from "--threads N". */
void bench_set_threads(int count, char **arguments);

/** With "--bf16 1" matrices lie on the processor's instance for products of bf16, and its peak is
 * that of BENCH_SGEMM. */
void bench_set_precision(int count, char **arguments);

/** With "--backend NAME" matrices lie on an instance of this backend. */
void bench_set_backend(int count, char **arguments);

/** Ends the program with the library's error text unless `status` is GRAIL_OK. */
void bench_check(grail_status status);

/** A matrix on the instance of these, else the host's: unset f64 or f32, or of standard normals in
 * f32. matrix_free. */
matrix bench_matrix(grail_dtype type, int64_t rows, int64_t columns);
matrix bench_normal_matrix(int64_t rows, int64_t columns, uint64_t seed);

/** Seconds on a monotonic clock. */
double bench_now(void);

/** A function to time, or to prepare a run. */
typedef void (*bench_body)(void *context);

typedef enum bench_peak { BENCH_SGEMM, BENCH_DGEMM } bench_peak;

/**
 * Runs `prepare` (untimed, may be NULL) and `body` once to warm up and then `runs` times, each time
 * with a short measure of the peak before it: other work on the machine slows both. Adds to
 * `report`: runs, threads, and the medians seconds, gflops, peak_gflops and ratio.
 */
void bench_run(json_t *report, int64_t runs, double flops, bench_peak peak, bench_body prepare,
               bench_body body, void *context);

/** Prints the report on standard output and releases it. */
void bench_print(json_t *report);

#endif
