/* grail doctor: is this machine set up to be fast? */
#include "commands.h"
#include "print.h"

#include <grail/grail.h>

static double seconds = 2.0;
static bool as_json;

static const option table[] = {
    {"seconds", OPTION_REAL, &seconds, "S", NULL, "length of the product speed test (2)"},
    {"json", OPTION_FLAG, &as_json, NULL, NULL, "print JSON"},
    {0},
};
const option *const doctor_options = table;

static void print_machine(const grail_machine *m)
{
    char total[HUMAN_SIZE];
    char available[HUMAN_SIZE];
    printf("grail      %s\n", grail_version());
    printf("processor  %s\n", m->cpu);
    printf("features   %s\n", m->features);
    printf("threads    %d of %d cores\n", m->threads, m->cores);
    printf("memory     %s, %s available\n", human_bytes((double)m->memory_total, total),
           human_bytes((double)m->memory_available, available));
    printf("products   %s %s, kernel %s (%s)\n", m->blas_name, m->blas_version, m->kernel,
           m->kernel_choice);
    printf("images     oneDNN %s\n", m->onednn_version);
    if (m->sgemm_gflops > 0.0) {
        printf("speed      %.0f GFLOP/s in f32, %.0f in f64\n", m->sgemm_gflops, m->dgemm_gflops);
    }
    if (m->remedy != NULL) {
        printf("warning: the kernel is the wrong one for this processor: %s\n", m->remedy);
    } else {
        printf("all good\n");
    }
}

static int print_machine_json(const grail_machine *m)
{
    return print_json(json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:s?}", "version",
        grail_version(), "cpu", m->cpu, "features", m->features, "cores", m->cores, "threads",
        m->threads, "memory_total", (json_int_t)m->memory_total, "memory_available",
        (json_int_t)m->memory_available, "blas", m->blas_name, "blas_version", m->blas_version,
        "onednn_version", m->onednn_version, "kernel", m->kernel, "kernel_choice", m->kernel_choice,
        "sgemm_gflops", m->sgemm_gflops, "dgemm_gflops", m->dgemm_gflops, "remedy", m->remedy));
}

static int run(int argc, char **argv)
{
    bool help = false;
    grail_machine machine = {0};
    const int code = options_parse(&command_doctor, table, argc, argv, NULL, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    const grail_status status = grail_machine_examine(seconds, &machine);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    if (as_json) {
        return print_machine_json(&machine);
    }
    print_machine(&machine);
    return EXIT_OK;
}

const command command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "show processor, BLAS kernel, product speed and memory",
    .run = run,
};
