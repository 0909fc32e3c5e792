/* The machine and its backends, for a program that tells of them. */
#include "backend/backend.h"
#include "backend/cpu/probe.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <grail/machine.h>

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
    cpu_speed speed = {0};
    if (seconds > 0.0) {
        CHECK(cpu_measure_speed(seconds, &speed));
    }
    cpu_probe_fill(out);
    out->sgemm_gflops = speed.sgemm_gflops;
    out->dgemm_gflops = speed.dgemm_gflops;
    out->bf16_gflops = speed.bf16_gflops;
    if (seconds > 0.0) {
        out->auto_precision = cpu_bf16_pays_at(&speed) ? "bf16" : "f32";
    }
    return GRAIL_OK;
}

int grail_backend_describe(int i, grail_backend *out)
{
    const backend_kind *kind = backend_kind_at(i);
    if (kind == NULL) {
        return 0;
    }
    *out = (grail_backend){.name = backend_kind_name(kind),
                           .summary = backend_kind_summary(kind),
                           .precision = backend_kind_precision(kind),
                           .operations = operation_count()};
    for (int k = 0; k < operation_count(); k++) {
        out->left_out += backend_leaves_out(kind, k) ? 1 : 0;
    }
    return 1;
}

grail_status grail_backend_try(int i)
{
    const backend_kind *kind = backend_kind_at(i);
    backend *b = NULL;
    if (kind == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT, "there is no backend %d", i);
    }
    const backend_options options = {.precision = backend_kind_precision(kind)};
    CHECK(backend_open(backend_kind_name(kind), &options, &b));
    backend_close(b);
    return GRAIL_OK;
}

const char *grail_backend_left_out(int i, int k)
{
    const backend_kind *kind = backend_kind_at(i);
    int found = 0;
    for (int slot = 0; kind != NULL && slot < operation_count(); slot++) {
        if (backend_leaves_out(kind, slot) && found++ == k) {
            return operation_name(slot);
        }
    }
    return NULL;
}
