/* grail bench: how long two networks take for one batch. */
#include "commands.h"
#include "notices.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>

enum { NETWORKS = 2 };

static grail_latency_options chosen = {.compute = {.precision = "auto"}};
static option_list settings;
static int64_t threads;
static bool quiet, as_json;

static const option table[] = {
    SET_OPTION(settings),
    {GROUP_MEASURE, "engine", OPTION_WORD, &chosen.engine, "NAME", WORDS("onnxruntime", "grail"),
     .help = "what runs the networks: onnxruntime (image networks), or grail, its own forward pass "
             "(onnxruntime where its library is found and the networks read images)"},
    FIELDS_OF(GROUP_MEASURE, grail_latency_option_at, GRAIL_SUBJECT_MEASURE, chosen),
    THREADS_OPTION(threads),
    PRECISION_OPTION(chosen.compute.precision, "auto"),
    BACKEND_OPTION(chosen.compute.backend),
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const bench_options = table;

static json_t *latency_json(const char *path, const grail_latency *l)
{
    return json_pack("{s:o, s:f, s:f, s:f}", "model", json_text(path), "median", l->median, "low",
                     l->low, "high", l->high);
}

static int print_all_json(const char *const *paths, const grail_latency *l)
{
    return print_json(json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:i, s:f, s:o, s:o, s:o, s:o}", "engine", json_text(l->engine),
        "batch", (json_int_t)l->batch, "side", (json_int_t)l->side, "length", (json_int_t)l->length,
        "runs", (json_int_t)l->runs, "threads", grail_threads(), "ratio", l[1].ratio, "ratio_low",
        json_number_or_null(l[1].ratio_low), "ratio_high", json_number_or_null(l[1].ratio_high),
        "first", latency_json(paths[0], &l[0]), "second", latency_json(paths[1], &l[1])));
}

static void print_batch(const grail_latency *l)
{
    if (l->side > 0) {
        print_out("%lld %s of %lld x %lld pixels", (long long)l->batch,
                  l->batch == 1 ? "image" : "images", (long long)l->side, (long long)l->side);
    } else {
        print_out("%lld %s of %lld tokens", (long long)l->batch,
                  l->batch == 1 ? "window" : "windows", (long long)l->length);
    }
}

static void print_all(const char *const *paths, const grail_latency *l)
{
    for (int i = 0; i < NETWORKS; i++) {
        print_out("%10.3f ms  %s  (half of the runs: %.3f to %.3f)\n", 1e3 * l[i].median, paths[i],
                  1e3 * l[i].low, 1e3 * l[i].high);
    }
    const double ratio = l[1].ratio;
    print_out("the second takes %.2f of the time of the first: %.2f times as fast", 1.0 / ratio,
              ratio);
    if (isnan(l[1].ratio_low)) {
        print_out(" (6 runs give an interval)\n");
    } else {
        print_out(" (95 %% interval %.2f to %.2f)\n", l[1].ratio_low, l[1].ratio_high);
    }
    print_batch(&l[0]);
    print_out(", %s, %d threads, medians of %lld runs in turns\n", l->engine, grail_threads(),
              (long long)l->runs);
}

static void note_fallback(const grail_latency *l)
{
    if (l->fallback[0] != 0) {
        print_error("note: grail's own forward pass is measured: %s\n", l->fallback);
    }
}

static int watch(void *user, int64_t done, int64_t turns)
{
    (void)user;
    if (!quiet) {
        print_progress((double)done / (double)turns, "turn %lld of %lld", (long long)done,
                       (long long)turns);
    }
    return 0;
}

static int run(int argc, char **argv)
{
    const char *paths[NETWORKS] = {NULL};
    grail_model *models[NETWORKS] = {NULL};
    grail_latency latencies[NETWORKS];
    bool help = false;
    int code = options_parse(&command_bench, table, argc, argv, paths, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    if (threads > 0) {
        grail_set_threads((int)threads);
    }
    const grail_model_options reading = {.settings = settings.values,
                                         .setting_count = settings.count};
    grail_status status = GRAIL_OK;
    for (int i = 0; i < NETWORKS && status == GRAIL_OK; i++) {
        status = grail_model_open_with(paths[i], &reading, &models[i]);
    }
    if (status == GRAIL_OK) {
        chosen.observer = watch;
        status =
            grail_latency_measure((const grail_model *const *)models, NETWORKS, &chosen, latencies);
        print_progress_end();
    }
    if (status == GRAIL_OK) {
        note_fallback(latencies);
    }
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else if (as_json) {
        code = print_all_json(paths, latencies);
    } else {
        print_all(paths, latencies);
    }
    for (int i = 0; i < NETWORKS; i++) {
        grail_model_close(models[i]);
    }
    return code;
}

static const char *const examples[] = {
    "grail bench demo/model narrow",
    "grail bench demo/model narrow --length 256 --batch 4 --threads 1",
    NULL,
};

const command command_bench = {
    .name = "bench",
    .arguments = "FIRST SECOND",
    .positional_count = NETWORKS,
    .summary = "compare how long two networks take",
    .details =
        "Runs both networks on random input, in turns, so that other work of the machine slows "
        "both of them. ONNX Runtime is a library that is looked for when it is needed: what the "
        "environment variable GRAIL_ONNXRUNTIME names, the system's, or that of the python3 on "
        "PATH.",
    .examples = examples,
    .run = run,
};
