/* How long networks take for one batch, measured in turns. */
#include <grail/latency.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/median.h"
#include "base/option_values.h"
#include "base/options.h"
#include "base/parallel.h"
#include "base/temporary_directory.h"
#include "eval/forward.h"
#include "eval/image_pass.h"
#include "eval/onnx_runtime.h"
#include "exec/compute.h"

#include <grail/grail.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_LENGTH = 128, USUAL_RUNS = 20, RUNS_BEFORE = 2 };

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_latency_options, member), .subject = GRAIL_SUBJECT_MEASURE
#define COUNT(member) FIELD(member), .type = GRAIL_OPTION_INTEGER, .zero_is_usual = 1,             \
                      .argument = "N"
static const grail_option fields[] = {
    {FIELD(engine), .type = GRAIL_OPTION_WORD, .what = "engine",
     .words = OPTION_WORDS("onnxruntime", "grail")},
    {COUNT(batch), .what = "the number of samples at once", .name = "batch",
     .help = "images, or windows of tokens, at once (1)"},
    {COUNT(side), .what = "the side of the images", .name = "side",
     .help = "side of the images in pixels (each network's, or its preset's)"},
    {COUNT(length), .what = "the number of tokens per window", .name = "length",
     .never_with = "engine=onnxruntime", .help = "tokens per window (128)"},
    {COUNT(runs), .what = "the number of runs", .name = "runs",
     .help = "runs of each network that are measured (20)"},
    {0},
};
/* clang-format on */

const grail_option *grail_latency_option_at(int i)
{
    return option_at(fields, i);
}

/* One network, ready to run. */
typedef struct runner {
    const grail_model *model;
    onnx_session *session; /* of ONNX Runtime; else all that follows */
    backend *backend;
    parameter_store *store;
    image_pass pass;
    int64_t batch, side, length;
    float *pixels;      /* [batch, side, side, 3], in whatever order */
    token_windows text; /* batch windows of random ids */
    double *seconds;    /* [runs] */
} runner;

static void runner_fini(runner *r)
{
    onnx_session_close(r->session);
    image_pass_end(&r->pass);
    parameter_store_free(r->store);
    backend_close(r->backend);
    memory_free(r->pixels);
    token_windows_fini(&r->text);
    memory_free(r->seconds);
}

static bool reads_images(const grail_model *model)
{
    return model->graph->input_kind == INPUT_IMAGES;
}

/* -- ONNX Runtime ------------------------------------------------------------------------------ */

/* Removes the file and the directory; where weights are apart, their file too. */
/* The file is read when the session is opened and is not needed after. */
static grail_status open_session(const onnx_runtime *runtime, runner *r)
{
    grail_status status = GRAIL_OK;
    const grail_onnx_options options = {.side = r->side};
    char *directory = NULL;
    char *file = NULL;
    char *data = NULL;
    TRY(temporary_directory("grail-onnx", &directory));
    TRY(path_join(&file, directory, "model.onnx"));
    TRY(path_join(&data, directory, "model.onnx.data"));
    TRY(grail_onnx_write(r->model, file, &options, NULL));
    TRY(onnx_session_open(runtime, file, parallel_threads(), &r->session));
out:
    temporary_directory_remove(directory);
    memory_free(data);
    memory_free(file);
    memory_free(directory);
    return status;
}

/* -- grail ------------------------------------------------------------------------------------- */

static grail_status open_own(const grail_compute *compute, runner *r)
{
    CHECK(compute_open(compute, r->model, &r->backend));
    CHECK(parameter_store_create(r->model, r->backend, NULL, &r->store));
    if (reads_images(r->model)) {
        CHECK(image_pass_begin(&r->pass, r->store, r->side));
    }
    return GRAIL_OK;
}

/* All windows up to the logits of their last tokens. */
static grail_status run_text(runner *r)
{
    grail_status status = GRAIL_OK;
    forward_pass f = {0};
    matrix logits = {0};
    TRY(forward_begin(&f, r->model, r->store, &r->text, 0, r->batch));
    for (int64_t window = 0; window < r->batch; window++) {
        TRY(forward_logits(&f, window, r->length - 1, 1, &logits));
    }
out:
    forward_end(&f);
    return status;
}

/* -- both -------------------------------------------------------------------------------------- */

static grail_status run_once(runner *r)
{
    const int64_t shape[] = {r->batch, IMAGE_CHANNELS, r->side, r->side};
    matrix logits = {0};
    return r->session != NULL       ? onnx_session_run(r->session, shape, r->pixels)
           : reads_images(r->model) ? image_pass_run(&r->pass, r->batch, r->pixels, &logits)
                                    : run_text(r);
}

static grail_status runner_open(const grail_model *model, const grail_latency_options *o,
                                const onnx_runtime *runtime, int64_t runs, runner *r)
{
    r->model = model;
    r->batch = o->batch == 0 ? 1 : o->batch;
    if (reads_images(model)) {
        r->side = o->side == 0 ? model_image_side(model) : o->side;
        CHECK(random_pixels(r->batch, r->side, &r->pixels));
    } else {
        r->length = o->length == 0 ? USUAL_LENGTH : o->length;
        CHECK(random_windows(model, r->batch, r->length, &r->text));
    }
    CHECK(memory_new(&r->seconds, (size_t)runs, sizeof r->seconds[0]));
    return runtime != NULL ? open_session(runtime, r) : open_own(&o->compute, r);
}

/* One network runs after the other, again and again. */
static grail_status take_turns(runner *runners, int count, int64_t runs,
                               const grail_latency_options *o)
{
    const int64_t turns = RUNS_BEFORE + runs;
    for (int64_t run = -RUNS_BEFORE; run < runs; run++) {
        for (int i = 0; i < count; i++) {
            const double begin = clock_seconds();
            CHECK(run_once(&runners[i]));
            if (run >= 0) {
                runners[i].seconds[run] = clock_seconds() - begin;
            }
        }
        const int64_t done = RUNS_BEFORE + run + 1;
        if (o->observer != NULL && o->observer(o->observer_user, done, turns) != 0) {
            return error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld turns",
                             (long long)done, (long long)turns);
        }
    }
    return GRAIL_OK;
}

/* The time of the first network by that of `r`, turn by turn: what slows the machine for a while
 * slows both networks of a turn. `ratios` has room for them. */
static void compare_turns(const runner *first, const runner *r, int64_t runs, double ratios[],
                          grail_latency *l)
{
    for (int64_t run = 0; run < runs; run++) {
        ratios[run] = first->seconds[run] / r->seconds[run];
    }
    median_sort(ratios, runs);
    l->ratio = median_of_sorted(ratios, runs);
    if (!median_interval(ratios, runs, &l->ratio_low, &l->ratio_high)) {
        l->ratio_low = l->ratio_high = (double)NAN;
    }
}

/* Sorts the times of `r`. */
static void summarise(runner *r, int64_t runs, const char *engine, const char *version,
                      grail_latency *l)
{
    const bool images = reads_images(r->model);
    median_sort(r->seconds, runs);
    l->median = median_of_sorted(r->seconds, runs);
    l->low = r->seconds[(runs - 1) / 4];
    l->high = r->seconds[runs - 1 - (runs - 1) / 4];
    l->runs = runs;
    l->batch = r->batch;
    l->length = r->length;
    l->side = images ? r->side : 0;
    snprintf(l->engine, sizeof l->engine, "%s %s", engine, version);
}

/* A choice that says nothing of networks of this kind. */
static grail_status check_kind(const grail_model *model, const grail_latency_options *o)
{
    const bool images = reads_images(model);
    if (images ? o->length == 0 : o->side == 0) {
        return GRAIL_OK;
    }
    return error_about(error_set(GRAIL_ERROR_ARGUMENT, "'%s' reads %s and takes no %s", model->path,
                                 images ? "images" : "text",
                                 images ? "number of tokens per window" : "side of images"),
                       images ? "length" : "side");
}

static grail_status check_options(const grail_model *const *models, int count,
                                  const grail_latency_options *o)
{
    for (int i = 1; i < count; i++) {
        if (reads_images(models[i]) != reads_images(models[0])) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "cannot compare a network that reads text with one that reads images: "
                             "'%s' and '%s'",
                             models[0]->path, models[i]->path);
        }
    }
    CHECK(options_check(fields, o));
    return check_kind(models[0], o);
}

/* ONNX Runtime computes in f32 by itself. */
static grail_status check_compute(const grail_compute *c)
{
    const bool precise = c->precision != NULL && strcmp(c->precision, "auto") != 0;
    if (!precise && c->backend == NULL) {
        return GRAIL_OK;
    }
    return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                 "ONNX Runtime has no choice of %s; leave that out, or measure "
                                 "with the engine 'grail'",
                                 precise ? "precision" : "backend"),
                       precise ? "precision" : "backend");
}

/* *out stays NULL where grail's own forward pass is to be measured; `fallback` says why, where it
 * is not what was asked for. */
static grail_status choose_engine(const grail_latency_options *o, bool images, onnx_runtime **out,
                                  char fallback[GRAIL_FALLBACK_SIZE])
{
    const char *engine = o->engine;
    if (engine == NULL ? !images : strcmp(engine, "grail") == 0) {
        return GRAIL_OK;
    }
    if (!images) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "only networks that read images can be measured in ONNX Runtime");
    }
    if (engine != NULL) {
        CHECK(check_compute(&o->compute));
    }
    const grail_status status = onnx_runtime_open(out);
    if (engine == NULL && status == GRAIL_ERROR_UNSUPPORTED &&
        getenv("GRAIL_ONNXRUNTIME") == NULL) {
        error_copy(fallback, GRAIL_FALLBACK_SIZE);
        return GRAIL_OK;
    }
    CHECK(status);
    return check_compute(&o->compute);
}

grail_status grail_latency_measure(const grail_model *const *models, int count,
                                   const grail_latency_options *options, grail_latency *out)
{
    grail_status status = GRAIL_OK;
    static const grail_latency_options usual = {0};
    const grail_latency_options *o = options == NULL ? &usual : options;
    const int64_t runs = o->runs == 0 ? USUAL_RUNS : o->runs;
    onnx_runtime *runtime = NULL;
    runner *runners = NULL;
    double *ratios = NULL; /* [runs] */
    char fallback[GRAIL_FALLBACK_SIZE] = "";
    if (count == 0) {
        return GRAIL_OK;
    }
    TRY(check_options(models, count, o));
    TRY(option_about("engine", choose_engine(o, reads_images(models[0]), &runtime, fallback)));
    TRY(memory_new(&runners, (size_t)count, sizeof runners[0]));
    for (int i = 0; i < count; i++) {
        TRY(runner_open(models[i], o, runtime, runs, &runners[i]));
    }
    TRY(memory_new(&ratios, (size_t)runs, sizeof ratios[0]));
    TRY(take_turns(runners, count, runs, o));
    for (int i = 0; i < count; i++) { /* before any times are sorted */
        compare_turns(&runners[0], &runners[i], runs, ratios, &out[i]);
    }
    for (int i = 0; i < count; i++) {
        summarise(&runners[i], runs, runtime != NULL ? "onnxruntime" : "grail",
                  runtime != NULL ? onnx_runtime_version(runtime) : grail_version(), &out[i]);
        memcpy(out[i].fallback, fallback, sizeof fallback);
    }
out:
    memory_free(ratios);
    for (int i = 0; runners != NULL && i < count; i++) {
        runner_fini(&runners[i]);
    }
    memory_free(runners);
    onnx_runtime_close(runtime);
    return status;
}
