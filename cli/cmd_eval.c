/* grail eval: the perplexity of a model that reads text, or the accuracy of one that reads images,
 * with everything needed to compare it with another measurement. */
#include "notices.h"
#include "paired.h"
#include "print.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *against; /* another network, or NULL */

static const option table[] = {
    {GROUP_INPUT, "data", OPTION_TEXT, &asked.data, "PATH", NULL,
     .help = "evaluation data. Text: .txt, .jsonl, .jsonl.gz, or token ids as .npy. "
             "Images: CIFAR-10 batches, or one folder of JPEG and PNG files per class",
     .need = REQUIRED, .field = "path"},
    SET_OPTION,
    TEXT_OPTIONS(asked.text),
    {GROUP_MEASURE, "windows", OPTION_INTEGER, &asked.windows, "N", NULL,
     .help = "measure only the first N windows (all)"},
    {GROUP_MEASURE, "against", OPTION_TEXT, &against, "MODEL", NULL,
     .help =
         "measure this model on the same windows, too, such as the dense one, and the difference "
         "of both with its own error, which is smaller than theirs"},
    IMAGE_OPTIONS,
    FIELDS_OF(GROUP_INPUT, grail_image_option_at, GRAIL_SUBJECT_MEASURE, asked.images),
    {GROUP_MEASURE, "images", OPTION_INTEGER, &asked.image_count, "N", NULL,
     .help = IMAGE_COUNT_HELP, .field = "count"},
    THREADS_OPTION,
    RANK_OPTIONS,
    PRECISION_OPTION("auto"),
    BACKEND_OPTION,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

/* What of two networks is measured on the same windows; the other one's is empty without it. */
typedef struct comparison {
    grail_perplexity own, other;
    window_losses of_own, of_other;
} comparison;

static int show_windows(void *user, const grail_eval_progress *p)
{
    char so_far[2 * HUMAN_SIZE] = "";
    if (!isnan(p->so_far)) {
        snprintf(so_far, sizeof so_far, ", perplexity so far %.4f", exp(p->so_far));
    }
    print_progress(p->passed / (double)p->total, "%lld/%lld windows measured%s",
                   (long long)p->passed, (long long)p->total, so_far);
    if (p->done == p->total) {
        print_progress_end();
    }
    return window_losses_take(user, p) ? 0 : 1;
}

static int show_images(void *user, const grail_eval_progress *p)
{
    (void)user;
    print_progress((double)p->done / (double)p->total,
                   "%lld/%lld images measured, top-1 so far %.2f %%", (long long)p->done,
                   (long long)p->total, 100.0 * p->so_far);
    if (p->done == p->total) {
        print_progress_end();
    }
    return 0;
}

static void warn_overlap(const grail_perplexity *p)
{
    if (p->is_calibration != 0) {
        print_error("grail: warning: the model was calibrated on this text; its perplexity says "
                    "little about other text\n");
    } else if (p->overlap_runs > 0) {
        print_error(
            "grail: warning: this text holds %lld of the %lld recorded runs of 24 tokens that the "
            "model was calibrated on; its perplexity says little about other text\n",
            (long long)p->overlap_runs, (long long)p->calibration_runs);
    }
}

static void warn_calibration(const grail_accuracy *a)
{
    if (a->overlap_images > 0) {
        print_error("grail: warning: the model was calibrated on %lld of the %lld images; its "
                    "accuracy says little about other images\n",
                    (long long)a->overlap_images, (long long)a->images);
    } else if (a->is_calibration != 0 && a->calibration_images == 0) {
        print_error("grail: warning: the model was calibrated on some of these images; its "
                    "accuracy says little about other images\n");
    }
}

static void print_against(const comparison *c)
{
    const paired_difference d = paired_difference_of(&c->of_own, &c->of_other);
    print_out("against      perplexity %.4f +- %.4f (mean NLL %.6f), %s\n", c->other.perplexity,
              c->other.error, c->other.mean_nll, against);
    print_out("difference   of the mean NLL %+.6f", d.mean);
    if (!isnan(d.error)) {
        print_out(" +- %.6f, the standard error over %lld windows of both", d.error,
                  (long long)c->of_own.count);
    }
    print_out("; %.4f times the perplexity\n", c->own.perplexity / c->other.perplexity);
}

static json_t *json_of_against(const comparison *c)
{
    if (against == NULL) {
        return json_null();
    }
    const paired_difference d = paired_difference_of(&c->of_own, &c->of_other);
    return json_of("model", J(against), "perplexity", J(c->other.perplexity), "error",
                   J(c->other.error), "mean_nll", J(c->other.mean_nll), "difference", J(d.mean),
                   "difference_error", J(d.error), NULL);
}

static void print_perplexity(const char *model, const grail_perplexity *p)
{
    print_out("perplexity %.4f +- %.4f (mean NLL %.6f)\n", p->perplexity, p->error, p->mean_nll);
    print_out("  model      %s (%s weights, computed in %s)\n", model, p->dtype, p->precision);
    print_out("  text       %s, protocol %s%s\n", asked.data, p->protocol,
              asked.text.window_bos != 0 ? ", every window begins with BOS" : "");
    print_out("  windows    %lld of context %lld, stride %lld; %lld tokens scored",
              (long long)p->windows, (long long)p->context, (long long)p->stride,
              (long long)p->scored_tokens);
    if (p->stream_tokens < 0) {
        print_out("; the text holds more\n");
    } else {
        print_out(" of %lld\n", (long long)p->stream_tokens);
    }
    print_out("  sha256     text %.16s..., tokenizer %.16s%s\n", p->text_sha256,
              p->tokenizer_sha256[0] == 0 ? "none" : p->tokenizer_sha256,
              p->tokenizer_sha256[0] == 0 ? "" : "...");
}

static int print_perplexity_json(const char *model, const comparison *c, json_t *notices)
{
    const grail_perplexity *p = &c->own;
    return print_json(
        json_of("model", J(model), "perplexity", J(p->perplexity), "error", J(p->error), "mean_nll",
                J(p->mean_nll), "dtype", J(p->dtype), "backend", J(asked.compute.backend),
                "precision", J(p->precision), "protocol", J(p->protocol), "window_bos",
                J((bool)asked.text.window_bos), "windows", J(p->windows), "context", J(p->context),
                "stride", J(p->stride), "scored_tokens", J(p->scored_tokens), "stream_tokens",
                p->stream_tokens < 0 ? json_null() : json_integer(p->stream_tokens), "text_sha256",
                J(p->text_sha256), "tokenizer_sha256", J(p->tokenizer_sha256), "overlap_runs",
                J(p->overlap_runs), "calibration_runs", J(p->calibration_runs), "against",
                json_of_against(c), "notices", notices, NULL));
}

static void print_accuracy(const char *model, const grail_accuracy *a)
{
    print_out("top-1 %.2f %% +- %.2f", 100.0 * a->top1, 100.0 * a->interval);
    if (!isnan(a->top5)) {
        print_out(", top-5 %.2f %%", 100.0 * a->top5);
    }
    print_out(", %lld images, preset %s\n", (long long)a->images, a->preset);
    print_out("  95 %%       top-1 between %.2f and %.2f %% (Wilson)\n", 100.0 * a->low,
              100.0 * a->high);
    print_out("  model      %s (%s weights, computed in %s, %lld classes)\n", model, a->dtype,
              a->precision, (long long)a->classes);
    print_out("  data       %s, %lld x %lld pixels, mean NLL %.6f\n", asked.data,
              (long long)a->width, (long long)a->side, a->mean_nll);
    print_out("  sha256     data %.16s...\n", a->data_sha256);
    print_out("  speed      %.1f images per second\n", a->images_per_second);
}

static int print_accuracy_json(const char *model, const grail_accuracy *a, json_t *notices)
{
    return print_json(json_of(
        "model", J(model), "top1", J(a->top1), "top5", J(a->top5), "interval", J(a->interval),
        "low", J(a->low), "high", J(a->high), "mean_nll", J(a->mean_nll), "images", J(a->images),
        "classes", J(a->classes), "side", J(a->side), "preset", J(a->preset), "data_sha256",
        J(a->data_sha256), "dtype", J(a->dtype), "backend", J(asked.compute.backend), "precision",
        J(a->precision), "seconds", J(a->seconds), "images_per_second", J(a->images_per_second),
        "overlap_images", J(a->overlap_images), "calibration_images", J(a->calibration_images),
        "notices", notices, NULL));
}

static json_t *eval_notices(const grail_model *model, const char *of_classes)
{
    return notices_json(model, asked.images.preset == NULL, NULL, of_classes);
}

/* Their windows have the same tokens. */
static int check_same(const comparison *c)
{
    const grail_perplexity *a = &c->own;
    const grail_perplexity *b = &c->other;
    if (strcmp(a->tokenizer_sha256, b->tokenizer_sha256) != 0) {
        print_command_error("the tokenizers of the two models differ, so their windows do; the "
                            "same token ids (.npy) can be measured with both");
    } else if (a->context != b->context || a->windows != b->windows) {
        print_command_error("%s reads %lld windows of %lld tokens, %s %lld of %lld; give a "
                            "--context that both read",
                            "the model", (long long)a->windows, (long long)a->context, against,
                            (long long)b->windows, (long long)b->context);
    } else {
        return EXIT_OK;
    }
    return EXIT_FAILED;
}

/* Before either is measured. */
static int open_other(const grail_model *model, grail_model **other, comparison *c)
{
    grail_status status = shared_options_open_model(against, other);
    if (status == GRAIL_OK) {
        status = grail_perplexity_describe(model, &asked.text, asked.windows, &c->own);
    }
    if (status == GRAIL_OK) {
        status = grail_perplexity_describe(*other, &asked.text, asked.windows, &c->other);
    }
    return status == GRAIL_OK ? check_same(c) : print_failure(status);
}

static int measure(const grail_model *model, window_losses *losses, grail_perplexity *out)
{
    const grail_status status = grail_perplexity_measure(model, &asked.text, asked.windows,
                                                         &asked.compute, show_windows, losses, out);
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}

static void warn_precision(const comparison *c)
{
    if (strcmp(c->own.precision, c->other.precision) != 0) {
        print_error("grail: warning: the model was computed in %s and the other one in %s, which "
                    "is in their difference; --precision gives both the same\n",
                    c->own.precision, c->other.precision);
    }
}

static int print_text(const char *path, const grail_model *model, const comparison *c)
{
    warn_overlap(&c->own);
    if (against != NULL) {
        warn_precision(c);
    }
    if (asked.as_json) {
        return print_perplexity_json(path, c, eval_notices(model, NULL));
    }
    print_perplexity(path, &c->own);
    if (against != NULL) {
        print_against(c);
    }
    return EXIT_OK;
}

static int evaluate_text(const char *path, const grail_model *model)
{
    comparison c = {0};
    grail_model *other = NULL;
    asked.text.path = asked.data;
    int code = against == NULL ? EXIT_OK : open_other(model, &other, &c);
    code = code == EXIT_OK ? measure(model, &c.of_own, &c.own) : code;
    code = code == EXIT_OK && other != NULL ? measure(other, &c.of_other, &c.other) : code;
    code = code == EXIT_OK ? print_text(path, model, &c) : code;
    window_losses_fini(&c.of_own);
    window_losses_fini(&c.of_other);
    grail_model_close(other);
    return code;
}

static int evaluate_images(const char *path, const grail_model *model)
{
    grail_accuracy a = {0};
    grail_images *opened = NULL;
    asked.images.path = asked.data;
    grail_status status = grail_images_open(model, &asked.images, &opened);
    if (status == GRAIL_OK) {
        status = grail_accuracy_measure(model, opened, asked.image_count, &asked.compute,
                                        show_images, NULL, &a);
    }
    grail_images_close(opened);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    warn_calibration(&a);
    print_class_warnings(asked.data, &a, asked.images.labels != NULL);
    if (asked.as_json) {
        return print_accuracy_json(path, &a, eval_notices(model, a.class_notice));
    }
    print_accuracy(path, &a);
    return EXIT_OK;
}

static int run(const char *const arguments[])
{
    const char *path = arguments[0];
    grail_model *model = NULL;
    grail_model_facts facts = {0};
    if (asked.compute.precision == NULL) {
        asked.compute.precision = "auto";
    }
    int code = ranks_join(&asked.compute.comm);
    if (code != EXIT_OK) {
        return code;
    }
    if (against != NULL && asked.compute.comm != NULL) {
        print_command_error("--against compares in one process; start one");
        return EXIT_USAGE;
    }
    grail_status status = shared_options_open_model(path, &model);
    if (status == GRAIL_OK) {
        status = grail_model_describe(model, &facts);
    }
    code = status != GRAIL_OK
               ? print_failure(status)
               : shared_options_check_kind(
                     path, facts.reads_images != 0,
                     "--field, --protocol, --context, --window-bos, --windows and --against",
                     "--preset, --split, --labels, --images, --size, --mean and --std");
    if (code == EXIT_OK) {
        code = facts.reads_images != 0 ? evaluate_images(path, model) : evaluate_text(path, model);
    }
    if (code == EXIT_OK) {
        print_notices(path, model, asked.images.preset == NULL);
    }
    grail_model_close(model);
    return code;
}

const command command_eval = {
    .name = "eval",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "measure perplexity or accuracy, and state what it depends on",
    .details =
        "Measures the perplexity of a model that reads text, or the top-1 and top-5 accuracy of a "
        "model that reads images.",
    .examples = WORDS("grail eval demo/model --data demo/held-out.txt",
                      "grail eval narrow --data demo/held-out.txt --against demo/model",
                      "grail eval demo/vision/cnn.pth --data demo/vision/test"),
    .options = table,
    .run = run,
    .shares_out = true,
};
