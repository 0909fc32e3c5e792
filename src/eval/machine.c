/* The machine and its backends, for a program that tells of them. */
#include "backend/backend.h"
#include "backend/cpu/probe.h"
#include "backend/operations.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/record.h"
#include "comm/comm.h"

#include <grail/machine.h>

#include <math.h>
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
        out->auto_precision = backend_prefers("cpu", "bf16-gram") ? "bf16-gram"
                              : cpu_bf16_pays_at(&speed)          ? "bf16"
                                                                  : "f32";
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

/* -- devices ----------------------------------------------------------------------------------- */

/* A square matrix of numbers around 0, as a GPU is slower with them than with zeros. */
static grail_status fill(backend *b, grail_dtype type, int64_t order, matrix *out)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    float *values = NULL;
    TRY(memory_new_unset(&values, (size_t)order, sizeof values[0]));
    for (int64_t i = 0; i < order; i++) {
        values[i] = (float)(i * 2654435761 % 1000) / 500.0F - 1.0F;
    }
    TRY(matrix_new(b, type, 1, order, &row));
    TRY(matrix_upload_f32(row, values));
    TRY(matrix_new(b, type, order, order, out));
    TRY(matrix_copy(matrix_repeat_row(row, order), *out));
out:
    matrix_free(&row);
    memory_free(values);
    return status;
}

/* Seconds of so many products, and until the device has made the last one. */
static grail_status time_products(const matrix m[3], int64_t count, double *seconds)
{
    double element = 0.0;
    const double begun = clock_seconds();
    for (int64_t i = 0; i < count; i++) {
        CHECK(m[0].type == GRAIL_DTYPE_F64 ? matrix_gemm(false, false, 1.0, m[0], m[1], 0.0, m[2])
                                           : matrix_product(false, false, m[0], m[1], 0.0, m[2]));
    }
    CHECK(matrix_download(matrix_columns(matrix_rows(m[2], 0, 1), 0, 1), &element));
    *seconds = clock_seconds() - begun;
    return GRAIL_OK;
}

/* *seconds of one product, by as many as take some time together. */
static grail_status time_order(backend *b, grail_dtype type, int64_t order, double *seconds)
{
    const double long_enough = 0.02;
    grail_status status = GRAIL_OK;
    matrix m[3] = {no_matrix, no_matrix, no_matrix};
    double all = 0.0;
    for (int i = 0; i < 3; i++) {
        TRY(fill(b, type, order, &m[i]));
    }
    TRY(time_products(m, 1, &all)); /* and what is prepared for it */
    all = 0.0;
    for (int64_t count = 1; all < long_enough; count *= 2) {
        TRY(time_products(m, count, &all));
        *seconds = all / (double)count;
    }
out:
    for (int i = 0; i < 3; i++) {
        matrix_free(&m[i]);
    }
    return status;
}

/* 0 after a failure. Matrices grow until a product takes some time, beside which what is around it
 * does not count. */
static double rate_of(const char *name, const char *precision, grail_dtype type)
{
    enum { LEAST_ORDER = 256, MOST_ORDER = 4096 };
    const double long_enough = 0.02;
    const backend_options options = {.precision = precision};
    backend *b = NULL;
    int64_t order = LEAST_ORDER;
    double seconds = 0.0;
    grail_status status = backend_open(name, &options, &b);
    status = status == GRAIL_OK ? time_order(b, type, order, &seconds) : status;
    while (status == GRAIL_OK && order < MOST_ORDER && seconds < long_enough) {
        order *= 2;
        status = time_order(b, type, order, &seconds);
    }
    backend_close(b);
    return status == GRAIL_OK ? 2e-12 * pow((double)order, 3.0) / seconds : 0.0;
}

int grail_device_examine(int i, int measures, grail_device *out)
{
    char name[sizeof out->backend];
    backend *b = NULL;
    snprintf(name, sizeof name, i == 0 ? "torch:cpu" : "torch:cuda:%d", i - 1);
    if (i < 0 || backend_open(name, NULL, &b) != GRAIL_OK) {
        return 0;
    }
    backend_describe_device(b, out);
    memcpy(out->backend, name, sizeof name);
    backend_close(b);
    if (measures != 0) {
        out->bf16_tflops = rate_of(name, "bf16", GRAIL_DTYPE_BF16);
        out->f32_tflops = rate_of(name, "f32", GRAIL_DTYPE_F32);
        out->f64_tflops = rate_of(name, "f32", GRAIL_DTYPE_F64);
    }
    return 1;
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
