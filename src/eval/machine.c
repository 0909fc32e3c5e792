#include "backend/cpu/probe.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <grail/machine.h>

#include <stdio.h>

void grail_set_threads(int threads)
{
    parallel_set_threads(threads);
}

int grail_threads(void)
{
    return parallel_threads();
}

int64_t grail_memory_peak(void)
{
    return memory_peak();
}

void grail_memory_peak_begin(void)
{
    memory_peak_begin();
}

grail_status grail_machine_examine(double seconds, grail_machine *out)
{
    cpu_probe probe = {0};
    cpu_speed speed = {0};
    if (seconds > 0.0) {
        CHECK(cpu_measure_speed(seconds, &speed));
    }
    cpu_probe_fill(&probe);
    *out = (grail_machine){
        .cores = probe.cores,
        .threads = probe.threads,
        .blas_name = probe.blas_name,
        .blas_version = probe.blas_version,
        .onednn_version = probe.onednn_version,
        .kernel = probe.kernel,
        .kernel_choice = probe.kernel_choice,
        .remedy = probe.remedy,
        .memory_total = probe.memory_total,
        .memory_available = probe.memory_available,
        .sgemm_gflops = speed.sgemm_gflops,
        .dgemm_gflops = speed.dgemm_gflops,
        .bf16_gflops = speed.bf16_gflops,
        .auto_precision = seconds > 0.0 ? (cpu_bf16_pays_at(&speed) ? "bf16" : "f32") : NULL,
    };
    snprintf(out->cpu, sizeof out->cpu, "%s", probe.model);
    snprintf(out->features, sizeof out->features, "%s", probe.features);
    return GRAIL_OK;
}
