/* The machine that the cpu backend runs on and its speed: for `grail doctor` and for reports. */
#ifndef GRAIL_BACKEND_CPU_PROBE_H
#define GRAIL_BACKEND_CPU_PROBE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cpu_probe {
    char model[128];       /* "unknown" where the system does not say */
    char features[256];    /* those of interest that are present, "avx2 fma avx512f ..." */
    int cores;             /* that this process may use */
    int threads;           /* that products run on */
    const char *blas_name; /* static, as are the texts below */
    const char *blas_version;
    const char *onednn_version;
    const char *kernel;          /* kernel set in use */
    const char *kernel_choice;   /* who chose it, in words */
    const char *suitable_kernel; /* for these features; NULL when BLAS decides */
    const char *remedy;   /* what to do when the kernel does not suit the CPU; NULL when it does */
    int64_t memory_total; /* bytes, -1 when unknown */
    int64_t memory_available;
} cpu_probe;

/** Fills `out`; chooses the BLAS kernel when that was not done yet. */
void cpu_probe_fill(cpu_probe *out);

typedef struct cpu_speed {
    double sgemm_gflops;
    double dgemm_gflops;
    double bf16_gflops; /* with f32 sums; 0 where the processor cannot */
} cpu_speed;

/** Whether products of bf16 are faster than those of f32: with AMX always; with instructions for
 * bf16 alone if `speed` shows it. */
bool cpu_bf16_pays_at(const cpu_speed *speed);

/** The same from a short test, made at the first call where it is needed. */
bool cpu_bf16_pays(void);

/** Best rate of square products of order 2048 on all threads, tried for about `seconds` in all. */
grail_status cpu_measure_speed(double seconds, cpu_speed *out) GRAIL_MUST_CHECK;

#endif
