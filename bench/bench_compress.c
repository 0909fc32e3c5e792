/* A complete compression of a synthetic Llama-shaped model: time against the measured peak over all
 * counted operations, and peak resident memory against its bound.
 *
 *   bench_compress [--layers 2] [--hidden 4096] [--ffn 11008] [--heads 32] [--vocabulary 32000]
 *                  [--samples 8] [--context 2048] [--percent 30] [--dense 1] [--threads N]
 *
 * Once in f32, and where the processor can once in bf16. Products of a run are compared with the
 * peak of its precision, those of the solve in f64 with the dgemm peak: ideal seconds = flops /
 * peak + flops64 / peak64. In bf16 the Gram matrices and attention count as products of bf16, too,
 * though they may be made otherwise. */
#include "bench.h"
#include "synthetic.h"

#include <grail/grail.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

typedef struct operations {
    double f32, f64;
} operations;

/* One ridge: R of H features removed, K kept, O outputs; alphas tried on 128 of many outputs, three
 * of them where the best one is the usual one or the next. Quadratic forms of A take a triangle. */
static double solve_flops(double h, double k, double outputs, bool residual)
{
    const double alphas = 3.0;
    const double measured = outputs <= 256.0 ? outputs : 128.0;
    const double parts = 2.0; /* fit and held out */
    const double removed = h - k;
    const double residual_cross =
        residual ? parts * 2.0 * outputs * removed * k : parts * 2.0 * outputs * k * k;
    const double squares = residual ? parts * measured * (k * k + 2.0 * removed * removed) : 0.0;
    const double tried = alphas * (k * k * k / 3.0 + 2.0 * measured * k * k + measured * k * k);
    const double errors = measured * k * k;
    const double last = k * k * k / 3.0 + 2.0 * outputs * k * k;
    return residual_cross + squares + tried + errors + last;
}

static operations count_operations(const synthetic_shape *s, double narrow_heads, double narrow_ffn)
{
    const double t = (double)(s->samples * s->context);
    const double e = (double)s->hidden;
    const double f = (double)s->ffn;
    operations o = {0};
    o.f32 += 2.0 * t * e * e * 3.0;            /* q, k, v */
    o.f32 += 2.0 * t * (double)s->context * e; /* causal scores and values */
    o.f32 += t * e * (e + 1.0);                /* Gram, counted as symmetric */
    o.f32 += 2.0 * t * narrow_heads * e;       /* o */
    o.f32 += 2.0 * t * e * f * 2.0;            /* gate, up */
    o.f32 += t * f * (f + 1.0);                /* Gram */
    o.f32 += 2.0 * t * narrow_ffn * e;         /* down */
    o.f64 += solve_flops(e, narrow_heads, e, true) + solve_flops(f, narrow_ffn, e, true);
    o.f32 *= (double)s->layers;
    o.f64 *= (double)s->layers;
    return o;
}

static double peak_resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

/* The bound: one block in f32, its statistics (fit and held out, f64), the sample streams, 300
 * MB. */
static double memory_bound(const synthetic_shape *s)
{
    const double e = (double)s->hidden;
    const double f = (double)s->ffn;
    const double t = (double)(s->samples * s->context);
    return 4.0 * (4.0 * e * e + 3.0 * e * f) + 2.0 * 8.0 * f * f + 4.0 * t * (e + f) + 300e6;
}

/* The speed of the machine beside a run: the better of before and after. */
typedef struct peaks {
    double f32, f64, bf16; /* operations per second */
} peaks;

static peaks peaks_between(const grail_machine *a, const grail_machine *b)
{
    return (peaks){.f32 = 1e9 * fmax(a->sgemm_gflops, b->sgemm_gflops),
                   .f64 = 1e9 * fmax(a->dgemm_gflops, b->dgemm_gflops),
                   .bf16 = 1e9 * fmax(a->bf16_gflops, b->bf16_gflops)};
}

static void report_sites(grail_compression *c, json_t *report)
{
    const grail_site_report heads = grail_compression_site(c, 0);
    const grail_site_report ffn = grail_compression_site(c, 1);
    bench_check(json_put(report, "heads_seconds", json_real(heads.seconds)));
    bench_check(json_put(report, "heads_solve_seconds", json_real(heads.solve_seconds)));
    bench_check(json_put(report, "ffn_seconds", json_real(ffn.seconds)));
    bench_check(json_put(report, "ffn_solve_seconds", json_real(ffn.solve_seconds)));
}

static void report_run(const synthetic_shape *s, grail_compression *c, peaks p, bool bf16,
                       double seconds, json_t *report)
{
    const operations o = count_operations(s, (double)grail_compression_site(c, 0).narrow,
                                          (double)grail_compression_site(c, 1).narrow);
    const double peak = bf16 ? p.bf16 : p.f32;
    bench_check(json_put(report, "seconds", json_real(seconds)));
    bench_check(json_put(report, "flops", json_real(o.f32)));
    bench_check(json_put(report, "flops_f64", json_real(o.f64)));
    bench_check(json_put(report, "peak_gflops", json_real(peak * 1e-9)));
    bench_check(json_put(report, "dgemm_peak_gflops", json_real(p.f64 * 1e-9)));
    bench_check(
        json_put(report, "ratio_of_peak", json_real((o.f32 / peak + o.f64 / p.f64) / seconds)));
    bench_check(json_put(report, "peak_bytes", json_real((double)grail_memory_peak())));
    bench_check(json_put(report, "peak_resident_bytes", json_real(peak_resident())));
    report_sites(c, report);
}

/* Seconds of the run. */
static double compress(const char *directory, const synthetic_shape *s, const char *target,
                       int64_t percent, const char *precision, json_t *report)
{
    char model[512], out[512], ids[512];
    snprintf(model, sizeof model, "%s", directory);
    snprintf(out, sizeof out, "%s-narrow", directory);
    snprintf(ids, sizeof ids, "%s/ids.npy", directory);
    grail_machine before = {0};
    grail_machine after = {0};
    grail_compression *c = NULL;
    grail_compress_options options;
    grail_compress_options_init(&options);
    options.read.model = model;
    options.output.path = out;
    options.read.text = (grail_text_source){.path = ids, .context = s->context};
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.01 * (double)percent;
    options.fit.target = target;
    options.cut.selector = "wanda"; /* no selection in f64, and no refits: what is counted is all */
    options.fit.refit = "none";
    options.fit.token_weights = "none";
    options.run.precision = precision;
    bench_check(grail_machine_examine(2.0, &before));
    grail_memory_peak_begin();
    const double start = bench_now();
    bench_check(grail_compression_open(&options, &c));
    bench_check(grail_compression_run(c));
    bench_check(grail_compression_finish(c));
    const double seconds = bench_now() - start;
    bench_check(grail_machine_examine(2.0, &after));
    report_run(s, c, peaks_between(&before, &after), strcmp(precision, "bf16") == 0, seconds,
               report);
    grail_compression_close(c);
    synthetic_remove(out);
    return seconds;
}

/* bf16 comes first: what is resident in f32 is more. */
static void compare_precisions(const char *directory, const synthetic_shape *s, const char *target,
                               int64_t percent, json_t *report)
{
    static const char *const precisions[] = {"bf16", "f32"};
    double seconds[2] = {0.0, 0.0};
    grail_machine machine = {0};
    bench_check(grail_machine_examine(0.1, &machine));
    for (int i = machine.bf16_gflops > 0.0 ? 0 : 1; i < 2; i++) {
        json_t *run = json_object();
        bench_check(json_put(report, precisions[i], run));
        seconds[i] = compress(directory, s, target, percent, precisions[i], run);
    }
    if (seconds[0] > 0.0) {
        bench_check(json_put(report, "f32_over_bf16", json_real(seconds[1] / seconds[0])));
    }
}

int main(int count, char **arguments)
{
    const synthetic_shape s = synthetic_options(count, arguments);
    const int64_t percent = bench_option(count, arguments, "percent", 30);
    const char *target = bench_option(count, arguments, "dense", 0) != 0 ? "dense" : "local";
    char directory[] = SYNTHETIC_DIRECTORY;
    json_t *report = json_object();
    bench_set_threads(count, arguments);
    bench_check(json_put(report, "layers", json_integer(s.layers)));
    bench_check(json_put(report, "threads", json_integer(grail_threads())));
    bench_check(json_put(report, "bound_bytes", json_real(memory_bound(&s))));
    bench_check(json_put(report, "stream_bytes",
                         json_real(4.0 * (double)(s.samples * s.context * s.hidden))));
    synthetic_make(directory, &s);
    compare_precisions(directory, &s, target, percent, report);
    synthetic_remove(directory);
    bench_print(report);
    return 0;
}
