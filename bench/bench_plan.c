/* The loss curves of a plan beside the dense pass that they come from, on a synthetic Llama-shaped
 * model: how much longer `grail plan` takes than one pass of the dense network with Gram matrices,
 * and its peak resident memory.
 *
 *   bench_plan [--layers 2] [--hidden 4096] [--ffn 11008] [--heads 32] [--vocabulary 32000]
 *              [--samples 8] [--context 2048] [--threads N]
 *
 * Widths are then chosen by the sum of errors, without trials. */
#include "bench.h"
#include "synthetic.h"

#include <grail/grail.h>
#include <grail/plan.h>

#include <stdio.h>
#include <sys/resource.h>

static void plan(const char *directory, const synthetic_shape *s, json_t *report)
{
    char ids[512];
    struct rusage usage;
    grail_plan *made = NULL;
    grail_plan_options options;
    snprintf(ids, sizeof ids, "%s/ids.npy", directory);
    grail_plan_options_init(&options);
    options.compress.read.model = directory;
    options.compress.read.text = (grail_text_source){.path = ids, .context = s->context};
    options.limit = "params";
    options.ratio = 0.7;
    options.budget = "error";
    bench_check(grail_plan_make(&options, &made));
    const grail_plan_facts f = grail_plan_facts_get(made);
    getrusage(RUSAGE_SELF, &usage);
    bench_check(json_put(report, "seconds", json_real(f.seconds)));
    bench_check(json_put(report, "pass_seconds", json_real(f.pass_seconds)));
    bench_check(json_put(report, "curve_seconds", json_real(f.curve_seconds)));
    bench_check(json_put(report, "ratio_to_pass", json_real(f.seconds / f.pass_seconds)));
    bench_check(
        json_put(report, "peak_resident_bytes", json_real(1024.0 * (double)usage.ru_maxrss)));
    grail_plan_free(made);
}

int main(int count, char **arguments)
{
    const synthetic_shape s = synthetic_options(count, arguments);
    char directory[] = SYNTHETIC_DIRECTORY;
    json_t *report = json_object();
    bench_set_threads(count, arguments);
    bench_check(json_put(report, "layers", json_integer(s.layers)));
    bench_check(json_put(report, "tokens", json_integer(s.samples * s.context)));
    bench_check(json_put(report, "threads", json_integer(grail_threads())));
    synthetic_make(directory, &s);
    plan(directory, &s, report);
    synthetic_remove(directory);
    bench_print(report);
    return 0;
}
