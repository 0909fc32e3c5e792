/* grail doctor: shows whether this machine is set up to be fast. */
#include "print.h"
#include "process.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <stdio.h>
#include <string.h>

static double seconds = 2.0;

static const option table[] = {
    {GROUP_MEASURE, "seconds", OPTION_REAL, &seconds, "S", NULL,
     .help = "seconds to spend on the speed test of matrix products; 0 skips it (2)"},
    TORCH_OPTION,
    JSON_OPTION,
    {0},
};

/* "cpu (f32, bf16" behind `before`, or ", bf16" behind another precision of the name; the caller
 * closes the bracket. `name` is that of the last one, and becomes this one's. */
static void print_backend(const grail_backend *b, const char *before, const char **name)
{
    const bool goes_on = *name != NULL && strcmp(*name, b->name) == 0;
    print_out("%s%s%s%s%s", *name != NULL && !goes_on ? ")" : "", goes_on ? ", " : before,
              goes_on ? "" : b->name, goes_on ? "" : " (", b->precision);
    *name = b->name;
}

/* Those that cannot compute here, with the reason behind those that share it. */
static void print_unusable(void)
{
    char reason[1024] = "";
    const char *name = NULL;
    grail_backend b = {0};
    for (int i = 0; grail_backend_describe(i, &b) != 0; i++) {
        if (grail_backend_try(i) == GRAIL_OK) {
            continue;
        }
        if (strcmp(reason, grail_error_message()) == 0) {
            print_backend(&b, ", ", &name);
            continue;
        }
        if (reason[0] != 0) {
            print_out("): %s\n", reason);
        }
        snprintf(reason, sizeof reason, "%s", grail_error_message());
        name = NULL;
        print_backend(&b, "           not ", &name);
    }
    if (reason[0] != 0) {
        print_out("): %s\n", reason);
    }
}

/* "backends   cpu (f32), ref (f64)" of those that compute here, why others do not, and what one
 * leaves to the host. */
static void print_backends(void)
{
    const char *name = NULL;
    grail_backend b = {0};
    for (int i = 0; grail_backend_describe(i, &b) != 0; i++) {
        if (grail_backend_try(i) == GRAIL_OK) {
            print_backend(&b, i == 0 ? "backends   " : ", ", &name);
        }
    }
    print_out(")\n");
    print_unusable();
    for (int i = 0; grail_backend_describe(i, &b) != 0; i++) {
        print_out("%s%s", b.left_out > 0 ? "           done on the host for " : "",
                  b.left_out > 0 ? b.name : "");
        for (int k = 0; k < b.left_out; k++) {
            print_out("%s%s", k == 0 ? ": " : ", ", grail_backend_left_out(i, k));
        }
        if (b.left_out > 0) {
            print_out("\n");
        }
    }
}

static json_t *backends_json(void)
{
    json_t *list = json_array();
    grail_backend b = {0};
    for (int i = 0; grail_backend_describe(i, &b) != 0; i++) {
        json_t *left_out = json_array();
        for (int k = 0; k < b.left_out; k++) {
            json_array_append_new(left_out, json_text(grail_backend_left_out(i, k)));
        }
        json_array_append_new(list,
                              json_of("name", J(b.name), "precision", J(b.precision), "usable",
                                      json_boolean(grail_backend_try(i) == GRAIL_OK), "operations",
                                      J(b.operations), "done_on_host", left_out, NULL));
    }
    return list;
}

static void print_devices(void)
{
    char free[HUMAN_SIZE];
    char total[HUMAN_SIZE];
    grail_device d = {.memory_free = 0};
    for (int i = 0; grail_device_examine(i, seconds > 0.0, &d) != 0; i++) {
        print_out("%s %s%s%s%s, ", i == 0 ? "devices   " : "          ", d.backend,
                  d.name[0] == 0 ? "" : " (", d.name, d.name[0] == 0 ? "" : ")");
        if (d.missing[0] != 0) {
            print_out("memory not known: %s", d.missing);
        } else {
            print_out("%s of %s free", human_bytes((double)d.memory_free, free),
                      human_bytes((double)d.memory_total, total));
        }
        if (seconds > 0.0) {
            print_out(", %.3g TFLOP/s in bf16, %.3g in f32, %.3g in f64", d.bf16_tflops,
                      d.f32_tflops, d.f64_tflops);
        }
        print_out("\n");
    }
}

static json_t *devices_json(void)
{
    json_t *list = json_array();
    grail_device d = {.memory_free = 0};
    for (int i = 0; grail_device_examine(i, seconds > 0.0, &d) != 0; i++) {
        const char *missing = d.missing[0] == 0 ? NULL : d.missing;
        json_array_append_new(list, json_of("backend", J(d.backend), "name", J(d.name),
                                            "memory_free", J(d.memory_free), "memory_total",
                                            J(d.memory_total), "missing", J(missing), "bf16_tflops",
                                            J(d.bf16_tflops), "f32_tflops", J(d.f32_tflops),
                                            "f64_tflops", J(d.f64_tflops), NULL));
    }
    return list;
}

static void print_machine(const grail_machine *m)
{
    char total[HUMAN_SIZE];
    char available[HUMAN_SIZE];
    print_out("grail      %s\n", grail_version());
    print_out("processor  %s\n", m->cpu);
    print_out("features   %s\n", m->features);
    print_out("threads    %d of %d cores\n", m->threads, m->cores);
    print_out("memory     %s, %s available\n", human_bytes((double)m->memory_total, total),
              human_bytes((double)m->memory_available, available));
    print_out("products   %s %s, kernel %s (%s)\n", m->blas_name, m->blas_version, m->kernel,
              m->kernel_choice);
    print_out("kernels    oneDNN %s, for convolutions and products in bf16\n", m->onednn_version);
    print_backends();
    print_devices();
    if (m->sgemm_gflops > 0.0) {
        print_out("speed      %.0f GFLOP/s in f32, %.0f in f64", m->sgemm_gflops, m->dgemm_gflops);
        if (m->bf16_gflops > 0.0) {
            print_out(", %.0f in bf16", m->bf16_gflops);
        }
        print_out("\nauto       %s for large networks that are stored in 16 bits%s\n",
                  m->auto_precision,
                  strcmp(m->auto_precision, "bf16-gram") == 0 ? ", bf16x3 for those in 32" : "");
    }
    if (m->remedy != NULL) {
        print_out("warning: this kernel is wrong for this processor: %s\n", m->remedy);
    } else {
        print_out("all good\n");
    }
}

static int print_machine_json(const grail_machine *m)
{
    return print_json(
        json_of("version", J(grail_version()), "cpu", J(m->cpu), "features", J(m->features),
                "cores", J(m->cores), "threads", J(m->threads), "memory_total", J(m->memory_total),
                "memory_available", J(m->memory_available), "blas", J(m->blas_name), "blas_version",
                J(m->blas_version), "onednn_version", J(m->onednn_version), "kernel", J(m->kernel),
                "kernel_choice", J(m->kernel_choice), "sgemm_gflops", J(m->sgemm_gflops),
                "dgemm_gflops", J(m->dgemm_gflops), "bf16_gflops", J(m->bf16_gflops),
                "auto_precision", J(m->auto_precision), "remedy", J(m->remedy), "backends",
                backends_json(), "devices", devices_json(), NULL));
}

static int run(const char *const arguments[])
{
    (void)arguments;
    grail_machine machine = {0};
    torch_find(asked.torch);
    const grail_status status = grail_machine_examine(seconds, &machine);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    if (asked.as_json) {
        return print_machine_json(&machine);
    }
    print_machine(&machine);
    return EXIT_OK;
}

const command command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "show processor, memory, BLAS kernel and the speed of matrix products",
    .examples = WORDS("grail doctor"),
    .options = table,
    .run = run,
};
