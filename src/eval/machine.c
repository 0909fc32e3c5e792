/* The machine and its backends, for a program that tells of them. */
#include "backend/backend.h"
#include "backend/cpu/probe.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/record.h"
#include "comm/comm.h"

#include <grail/machine.h>

#include <stdio.h>
#include <string.h>

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

/* -- choosing a backend ------------------------------------------------------------------------ */

/* The name of a backend, which lives as long as the program; NULL: there is none of that name. */
static const char *known_name(const char *name)
{
    const backend_kind *kind = backend_kind_at(0);
    for (int i = 1; name != NULL && kind != NULL && strcmp(backend_kind_name(kind), name) != 0;
         i++) {
        kind = backend_kind_at(i);
    }
    return name == NULL || kind == NULL ? NULL : backend_kind_name(kind);
}

static grail_status keep_backend(const char *resumed, grail_backend_choice *out)
{
    run_record *left = NULL;
    CHECK(record_look(resumed, &left));
    const json_t *first = record_first(left);
    out->backend = known_name(json_string_value(json_object_get(first, "backend")));
    snprintf(out->reason, sizeof out->reason, "the interrupted run began with it");
    record_close(left);
    return GRAIL_OK;
}

static void try_gpu(grail_backend_choice *out)
{
    static const char gpu[] = "torch:cuda";
    backend *b = NULL;
    const bool sees = backend_open(gpu, NULL, &b) == GRAIL_OK;
    backend_close(b);
    out->backend = sees ? gpu : "cpu";
    snprintf(out->reason, sizeof out->reason, "%.1000s",
             sees ? "PyTorch sees a GPU, and the network is large enough for it"
                  : grail_error_message());
}

grail_status grail_backend_choose(const grail_model *model, const grail_comm *comm,
                                  const char *resumed, grail_backend_choice *out)
{
    const double tokens = 0x1p16;
    const double images = 128.0;
    const double worth = 0x1p41;
    grail_model_facts facts = {0};
    *out = (grail_backend_choice){0};
    CHECK(grail_model_describe(model, &facts));
    CHECK(resumed == NULL ? GRAIL_OK : keep_backend(resumed, out));
    const double samples = facts.reads_images != 0 ? images : tokens;
    const double products = (double)facts.macs_per_token * samples;
    if (out->backend != NULL) {
        return GRAIL_OK;
    }
    if (comm_is_shared(comm)) {
        snprintf(out->reason, sizeof out->reason, "several processes share out the work");
    } else if (products < worth) {
        snprintf(out->reason, sizeof out->reason,
                 "the network is small: %.1e products on %.0f %s, and a GPU is worth its start "
                 "from %.1e on",
                 products, samples, facts.reads_images != 0 ? "images" : "tokens", worth);
    } else {
        try_gpu(out);
        return GRAIL_OK;
    }
    out->backend = "cpu";
    return GRAIL_OK;
}
