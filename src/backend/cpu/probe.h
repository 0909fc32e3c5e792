/* The machine that the cpu backend runs on and its speed: for `grail doctor` and for reports. */
#ifndef GRAIL_BACKEND_CPU_PROBE_H
#define GRAIL_BACKEND_CPU_PROBE_H

#include "base/status.h"

#include <grail/machine.h>

#include <stdbool.h>

/** Fills in what the machine is, all but rates and the precision; chooses the BLAS kernel when that
 * was not done yet. The CPU is "unknown" where the system does not say. */
void cpu_probe_fill(grail_machine *out);

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
