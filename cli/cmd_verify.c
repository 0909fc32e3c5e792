/* grail verify: compares a narrow model with its dense model. */
#include "notices.h"
#include "outputs.h"
#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>
#include <stdlib.h>

/* What is found; the outputs are those of networks that read images, else NULL. */
typedef struct findings {
    grail_comparison all;
    grail_output_comparison *outputs; /* [output_count] owned */
    int64_t output_count;
} findings;

enum { DEFAULT_WINDOWS = 4, DEFAULT_IMAGES = 256 };

static double tolerance = 1e-3;

static const option table[] = {
    {GROUP_INPUT, "data", OPTION_TEXT, &asked.data, "PATH", NULL,
     .help = "text or images to run both models on, in the formats of grail eval (4 windows of 64 "
             "random "
             "token ids, or 8 random images)",
     .field = "path"},
    SET_OPTION,
    FIELD_OF(GROUP_INPUT, grail_text_option_at, "field", asked.text),
    FIELD_OF(GROUP_INPUT, grail_text_option_at, "protocol", asked.text),
    FIELD_OF(GROUP_INPUT, grail_text_option_at, "context", asked.text),
    {GROUP_MEASURE, "windows", OPTION_INTEGER, &asked.windows, "N", NULL,
     .help = "number of windows of the text to compare on (4; of an encoder all)",
     .only_with = "data"},
    IMAGE_OPTIONS,
    {GROUP_MEASURE, "images", OPTION_INTEGER, &asked.image_count, "N", NULL,
     .help =
         "compare on at most N images, evenly spaced over the data, the same in every run (256)",
     .only_with = "data"},
    {GROUP_MEASURE, "tolerance", OPTION_REAL, &tolerance, "X", NULL,
     .help = "largest logit difference at which the zero-column identity still holds (1e-3)"},
    THREADS_OPTION,
    PRECISION_OPTION("f32"),
    BACKEND_OPTION,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static bool identity_holds(const grail_comparison *c)
{
    return c->identity_checked == 0 || c->identity_max_abs <= tolerance;
}

/* How near the vectors are that stand for whole texts. */
static void print_pooled(const grail_comparison *c)
{
    const bool documents = c->documents != 0;
    if (c->pooled == 0) {
        return;
    }
    print_out("%s-pooled vectors of %lld %s: cosine %.6f", c->pooling, (long long)c->pooled,
              documents ? "documents" : "windows", c->mean_cosine);
    if (!isnan(c->cosine_interval)) {
        print_out(" +- %.6f", c->cosine_interval);
    }
    print_out(" (least %.6f)\n", c->least_cosine);
    if (!isnan(c->same_nearest)) {
        print_out("the nearest other %s is the same for %.1f %% +- %.1f\n",
                  documents ? "document" : "window", 100.0 * c->same_nearest,
                  100.0 * c->nearest_interval);
    }
    print_full_documents(c->full_documents, c->context);
    if (c->pooling_notice[0] != 0) {
        print_out("note: %s\n", c->pooling_notice);
    }
}

static void print_difference(const findings *f, bool of_images)
{
    const grail_comparison *c = &f->all;
    if (f->output_count > 1) {
        print_out("outputs on %lld images:\n", (long long)c->compared);
        outputs_print(f->output_count, f->outputs);
        return;
    }
    if (isnan(c->mean_kl)) {
        print_out("%s of %lld %s: max abs difference %.3g, relative error %.4g\n",
                  of_images ? "features" : "hidden states", (long long)c->compared,
                  of_images ? "images" : "tokens", c->max_abs, c->relative_error);
        print_pooled(c);
        return;
    }
    print_out("logits on %lld %s: max abs difference %.3g, mean KL %.4g (max %.3g), same top %s "
              "%.1f %%\n",
              (long long)c->compared, of_images ? "images" : "tokens", c->max_abs, c->mean_kl,
              c->max_kl, of_images ? "class" : "token", 100.0 * c->top1_agreement);
}

static void print_identity(const grail_comparison *c)
{
    if (c->identity_checked != 0) {
        print_out("zero-column identity: max abs difference %.3g, %s (tolerance %g)\n",
                  c->identity_max_abs, identity_holds(c) ? "holds" : "DOES NOT HOLD", tolerance);
    } else if (c->norm_is_cut != 0) {
        print_out("zero-column identity: does not apply (it does not hold where a norm runs over a "
                  "width that was cut, since what is left of it gets other values)\n");
    } else {
        print_out("zero-column identity: does not apply (it holds only for a model pruned with "
                  "--compensate "
                  "none and without --repair, and needs its report.json)\n");
    }
}

static json_t *json_of_pooled(const grail_comparison *c)
{
    return c->pooled == 0
               ? json_null()
               : json_of("windows", J(c->pooled), "documents", J((bool)c->documents), "context",
                         J(c->context), "full_documents", J(c->full_documents), "pooling",
                         J(c->pooling), "pooling_notice", J(c->pooling_notice), "mean_cosine",
                         J(c->mean_cosine), "cosine_interval", J(c->cosine_interval),
                         "least_cosine", J(c->least_cosine), "same_nearest", J(c->same_nearest),
                         "nearest_interval", J(c->nearest_interval), NULL);
}

static int print_json_result(const findings *f, bool of_images)
{
    const grail_comparison *c = &f->all;
    json_t *identity = c->identity_checked != 0 ? json_of("max_abs", J(c->identity_max_abs),
                                                          "holds", J((bool)identity_holds(c)), NULL)
                                                : json_null();
    return print_json(json_of(
        of_images ? "images" : "tokens", J(c->compared), "max_abs", J(c->max_abs), "relative_error",
        J(c->relative_error), "pooled", json_of_pooled(c), "mean_kl", J(c->mean_kl), "max_kl",
        J(c->max_kl), "top1_agreement", J(c->top1_agreement), "outputs",
        of_images ? outputs_json(f->output_count, f->outputs) : json_null(), "worst", J(c->worst),
        "zero_column_identity", identity, "norm_is_cut", J((bool)c->norm_is_cut), NULL));
}

static int print_result(const findings *f, bool of_images)
{
    if (asked.as_json) {
        return print_json_result(f, of_images);
    }
    print_difference(f, of_images);
    print_identity(&f->all);
    return EXIT_OK;
}

static int watch(void *user, const grail_eval_progress *p)
{
    const bool *of_images = user;
    print_progress(p->passed / (double)p->total, "%lld/%lld %s compared", (long long)p->passed,
                   (long long)p->total, *of_images ? "images" : "windows");
    return 0;
}

static grail_status measure(const grail_model *dense, const grail_model *narrow,
                            const grail_model_facts *facts, findings *out)
{
    bool of_images = facts->reads_images != 0;
    asked.images.path = asked.text.path = asked.data;
    if (of_images) {
        const int64_t most = asked.image_count == 0 ? DEFAULT_IMAGES : asked.image_count;
        out->outputs = outputs_room(dense, &out->output_count);
        return grail_verify_outputs(dense, narrow, 0, &asked.images, most, &asked.compute, watch,
                                    &of_images, out->outputs, &out->all);
    }
    const int64_t usual = facts->gives_features != 0 ? 0 : DEFAULT_WINDOWS;
    return grail_verify(dense, narrow, &asked.text, asked.windows == 0 ? usual : asked.windows,
                        &asked.compute, watch, &of_images, &out->all);
}

static int compare(const char *path, const grail_model *dense, const grail_model *narrow)
{
    grail_model_facts facts = {0};
    findings result = {0};
    grail_status status = grail_model_describe(dense, &facts);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const bool of_images = facts.reads_images != 0;
    int code =
        shared_options_check_kind(path, of_images, "--field, --protocol, --context and --windows",
                                  "--preset, --split, --images, --size, --mean and --std");
    if (code != EXIT_OK) {
        return code;
    }
    status = measure(dense, narrow, &facts, &result);
    print_progress_end();
    if (status != GRAIL_OK) {
        free(result.outputs);
        return print_failure(status);
    }
    print_notices(path, dense, asked.data != NULL && asked.images.preset == NULL);
    code = print_result(&result, of_images);
    free(result.outputs);
    return code == EXIT_OK && !identity_holds(&result.all) ? EXIT_NUMERIC : code;
}

static int run(const char *const arguments[])
{
    grail_model *dense = NULL;
    grail_model *narrow = NULL;
    grail_status status = shared_options_open_model(arguments[0], &dense);
    if (status == GRAIL_OK) {
        status = shared_options_open_model(arguments[1], &narrow);
    }
    const int code =
        status == GRAIL_OK ? compare(arguments[0], dense, narrow) : print_failure(status);
    grail_model_close(dense);
    grail_model_close(narrow);
    return code;
}

const command command_verify = {
    .name = "verify",
    .arguments = "DENSE NARROW",
    .argument_count = 2,
    .summary = "compare a narrow model with its dense model",
    .details =
        "Compares the logits of the two models, the hidden states of two encoders, or each output "
        "of "
        "two networks that read images. For a model "
        "that was pruned with --compensate none, also checks the zero-column identity. Its logits "
        "must equal those of the dense model with the columns that read removed units set to zero. "
        "Exit code 3 means that they do not.",
    .examples = WORDS("grail verify demo/model narrow --data demo/held-out.txt"),
    .options = table,
    .run = run,
};
