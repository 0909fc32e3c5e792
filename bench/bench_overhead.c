/* What narrowing an image network costs: seconds of calibration and of compensation and peak
 * resident memory, beside the seconds that its own weights' forward pass would need anyway.
 *
 *   bench_overhead MODEL IMAGES [--kinds conv,stream,ffn] [--percent 50] [--samples 128]
 *                  [--compensate full] [--preset NAME] [--split train] [--open 1] [--ratios 9]
 *                  [--threads N]
 *
 * With --ratios R the removed fraction runs over R values from 10 % on in one session, and the
 * seconds of the first and of all are printed: an open loop takes its statistics once. */
#include "bench.h"

#include <grail/grail.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Value of "--name TEXT" on the command line, or `fallback`. */
static const char *text_option(int count, char **arguments, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < count; i++) {
        if (strncmp(arguments[i], "--", 2) == 0 && strcmp(arguments[i] + 2, name) == 0) {
            return arguments[i + 1];
        }
    }
    return fallback;
}

static void set_kinds(grail_compress_options *o, const char *kinds, double fraction)
{
    o->amount.sparsity_conv = strstr(kinds, "conv") != NULL ? fraction : 0.0;
    o->amount.sparsity_stream = strstr(kinds, "stream") != NULL ? fraction : 0.0;
    o->amount.sparsity_ffn = strstr(kinds, "ffn") != NULL ? fraction : 0.0;
    o->amount.sparsity_heads = strstr(kinds, "heads") != NULL ? fraction : 0.0;
}

/* One narrowing in memory; its seconds. The totals of the last one stay in `report`. */
static double narrow(const grail_compress_options *options, json_t *report)
{
    grail_compression *c = NULL;
    const double begun = bench_now();
    bench_check(grail_compression_open(options, &c));
    bench_check(grail_compression_run(c));
    const double seconds = bench_now() - begun;
    const grail_compression_totals t = grail_compression_totals_get(c);
    bench_check(json_put(report, "calibrate_seconds", json_real(t.calibrate_seconds)));
    bench_check(json_put(report, "compensate_seconds", json_real(t.compensate_seconds)));
    bench_check(json_put(report, "dense_parameters", json_integer(t.dense.parameters)));
    bench_check(json_put(report, "parameters", json_integer(t.parameters)));
    bench_check(json_put(report, "samples", json_integer(t.samples)));
    grail_compression_close(c);
    return seconds;
}

static double peak_resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: bench_overhead MODEL IMAGES [options]\n");
        return 2;
    }
    const char *kinds = text_option(count, arguments, "kinds", "conv,stream,ffn");
    const int64_t ratios = bench_option(count, arguments, "ratios", 1);
    const int64_t percent = bench_option(count, arguments, "percent", 50);
    json_t *report = json_object();
    grail_image_source images;
    grail_compress_options o;
    grail_image_source_init(&images);
    grail_compress_options_init(&o);
    bench_set_threads(count, arguments);
    images.path = arguments[2];
    images.preset = text_option(count, arguments, "preset", NULL);
    images.split = text_option(count, arguments, "split", "train");
    o.read.images = &images;
    o.cut.selector = text_option(count, arguments, "selector", "magnitude-l1");
    o.fit.compensate = text_option(count, arguments, "compensate", "full");
    o.read.samples = bench_option(count, arguments, "samples", 128);
    o.fit.open_loop = (int)bench_option(count, arguments, "open", 0);
    bench_check(grail_session_open(arguments[1], NULL, &o.read.session));
    double first = 0.0;
    double all = 0.0;
    for (int64_t r = 0; r < ratios; r++) {
        set_kinds(&o, kinds, 0.01 * (double)(ratios == 1 ? percent : 10 * (r + 1)));
        const double seconds = narrow(&o, report);
        first = r == 0 ? seconds : first;
        all += seconds;
    }
    bench_check(json_put(report, "model", json_string(arguments[1])));
    bench_check(json_put(report, "compensate", json_string(o.fit.compensate)));
    bench_check(json_put(report, "open_loop", json_boolean(o.fit.open_loop)));
    bench_check(json_put(report, "ratios", json_integer(ratios)));
    bench_check(json_put(report, "first_seconds", json_real(first)));
    bench_check(json_put(report, "seconds", json_real(all)));
    bench_check(json_put(report, "times_first", json_real(all / first)));
    bench_check(json_put(report, "peak_resident_bytes", json_real(peak_resident())));
    bench_check(json_put(report, "threads", json_integer(grail_threads())));
    grail_session_close(o.read.session);
    bench_print(report);
    return 0;
}
