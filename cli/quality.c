#include "quality.h"

#include "answers.h"
#include "command_line.h"
#include "notices.h"
#include "outputs.h"
#include "print.h"
#include "process.h"
#include "shared_options.h"

#include <grail/escape.h>
#include <grail/eval.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The networks that are compared, and what is found of all three. */
typedef struct measurement {
    grail_model *dense, *narrow;
    grail_model *given;   /* what was healed; NULL where `dense` was cut */
    grail_images *images; /* NULL: text */
    quality *found;
    const char *now;  /* which network runs */
    const char *what; /* is counted: "windows", "images" or "questions" */
} measurement;

int quality_check(void)
{
    const bool names_arrays = asked.data != NULL && strchr(asked.data, '=') != NULL; /* of inputs */
    if (asked.data == NULL || names_arrays || access(asked.data, R_OK) == 0) {
        return EXIT_OK;
    }
    print_command_error("cannot read '%s' for --eval: %s", asked.data, strerror(errno));
    return EXIT_FAILED;
}

static int watch(void *user, const grail_eval_progress *p)
{
    const measurement *m = user;
    print_progress(p->passed / (double)p->total, "measuring the %s: %lld/%lld %s", m->now,
                   (long long)p->passed, (long long)p->total, m->what);
    if (p->done == p->total) {
        print_progress_end();
    }
    return interrupt_came();
}

static void note_seen(quality *q, seen_data seen)
{
    if (seen.share > q->seen.share) {
        q->seen = seen;
    }
}

/* `part` of `all` samples of the calibration set are in the data. */
static void note_share(quality *q, bool is_all, int64_t part, int64_t all)
{
    note_seen(q, (seen_data){.share = is_all ? 1.0 : all > 0 ? (double)part / (double)all : 0.0});
}

static grail_status measure_text(measurement *m, const grail_model *model, bool plain,
                                 quality_value *out)
{
    grail_perplexity p = {0};
    const grail_status status =
        plain ? grail_perplexity_of_cut(m->dense, m->narrow, &asked.text, asked.windows,
                                        &asked.compute, watch, m, &p)
              : grail_perplexity_measure(model, &asked.text, asked.windows, &asked.compute, watch,
                                         m, &p);
    note_share(m->found, p.is_calibration != 0, p.overlap_runs, p.calibration_runs);
    *out = (quality_value){.value = p.perplexity, .error = p.error};
    return status;
}

static grail_status measure_images(measurement *m, const grail_model *model, bool plain,
                                   quality_value *out)
{
    grail_accuracy a = {0};
    const grail_status status =
        plain ? grail_accuracy_of_cut(m->dense, m->narrow, m->images, asked.image_count,
                                      &asked.compute, watch, m, &a)
              : grail_accuracy_measure(model, m->images, asked.image_count, &asked.compute, watch,
                                       m, &a);
    if (a.calibration_images == 0) { /* narrowed by an older grail, or not by grail */
        note_share(m->found, a.is_calibration != 0, 0, 0);
    } else {
        note_seen(m->found,
                  (seen_data){.share = (double)a.calibration_found / (double)a.calibration_images,
                              .images = a.overlap_images,
                              .measured = a.images});
    }
    *out = (quality_value){.value = a.top1, .error = a.interval};
    return status;
}

/* Token ids are no documents. */
static const char *vectors_name(const grail_comparison *c)
{
    return c->documents != 0 ? "documents" : "windows";
}

static grail_status measure_vectors(measurement *m, const grail_model *model, bool plain,
                                    quality_value *out)
{
    quality *q = m->found;
    grail_comparison c = {0};
    const grail_status status =
        plain ? grail_verify_of_cut(m->dense, m->narrow, &asked.text, asked.windows, &asked.compute,
                                    watch, m, &c)
              : grail_verify(m->dense, model, &asked.text, asked.windows, &asked.compute, watch, m,
                             &c);
    if (status != GRAIL_OK) {
        return status;
    }
    note_share(q, c.is_calibration != 0, c.overlap_runs, c.calibration_runs);
    q->samples = c.pooled;
    q->samples_name = vectors_name(&c);
    memcpy(q->pooling, c.pooling, sizeof q->pooling);
    *out = (quality_value){.value = c.mean_cosine,
                           .error = c.cosine_interval,
                           .same = c.same_nearest,
                           .same_error = c.nearest_interval};
    return interrupt_came() != 0 ? GRAIL_ERROR_CANCELLED : GRAIL_OK;
}

/* --split is about the calibration set; the usual one of an evaluation is the test set. */
static grail_image_source images_source(void)
{
    grail_image_source source = asked.images; /* that of the run names the calibration set */
    source.path = asked.data;
    source.split = NULL;
    return source;
}

/* The names are borrowed from the session's model, which is there as long as the command. */
static void keep_names(int64_t count, grail_output_comparison *of)
{
    const grail_model *model = grail_session_model(asked.compress.read.session);
    for (int64_t i = 0; i < count; i++) {
        grail_output_facts facts = {0};
        of[i].name = grail_model_output(model, (int)i, &facts) == GRAIL_OK ? facts.name : NULL;
    }
}

static grail_status measure_outputs(measurement *m, const grail_model *model, bool plain,
                                    quality_value *out)
{
    quality *q = m->found;
    grail_comparison c = {0};
    const grail_image_source source = images_source();
    grail_output_comparison *outputs = outputs_room(m->dense, &q->output_count);
    const grail_status status =
        grail_verify_outputs(m->dense, plain ? m->narrow : model, plain ? 1 : 0, &source,
                             asked.image_count, &asked.compute, watch, m, outputs, &c);
    if (status != GRAIL_OK) {
        free(outputs);
        return status;
    }
    if (c.calibration_runs == 0) {
        note_share(q, c.is_calibration != 0, 0, 0);
    } else {
        note_seen(q, (seen_data){.share = (double)c.overlap_runs / (double)c.calibration_runs,
                                 .images = c.overlap_runs,
                                 .measured = c.compared});
    }
    q->samples = c.compared;
    q->samples_name = "images";
    keep_names(q->output_count, outputs);
    *out = (quality_value){.value = c.relative_error,
                           .error = (double)NAN,
                           .same = c.top1_agreement,
                           .outputs = outputs};
    for (int64_t i = 0; i < q->output_count; i++) {
        out->worst = outputs[i].relative_error == c.relative_error && out->worst == NULL
                         ? outputs[i].name
                         : out->worst;
    }
    return interrupt_came() != 0 ? GRAIL_ERROR_CANCELLED : GRAIL_OK;
}

static grail_status measure(measurement *m, const char *now, const grail_model *model, bool plain,
                            quality_value *out)
{
    m->now = now;
    return m->found->measure == QUALITY_TOP1      ? measure_images(m, model, plain, out)
           : m->found->measure == QUALITY_COSINE  ? measure_vectors(m, model, plain, out)
           : m->found->measure == QUALITY_OUTPUTS ? measure_outputs(m, model, plain, out)
                                                  : measure_text(m, model, plain, out);
}

static const quality_value not_measured = {
    .value = (double)NAN, .error = (double)NAN, .same = (double)NAN, .same_error = (double)NAN};

/* What is compared with the dense network has no measure of its own there. */
static bool is_compared(quality_kind measure)
{
    return measure == QUALITY_COSINE || measure == QUALITY_OUTPUTS;
}

/* A model that answers is asked, too; others are not. */
static grail_status ask(measurement *m, const char *now, const grail_model *model,
                        grail_answers *out)
{
    m->now = now;
    m->what = "questions";
    return grail_answers_measure(model, &asked.text, &asked.compute, watch, m, out);
}

static grail_status measure_all(measurement *m)
{
    quality *q = m->found;
    grail_status status = GRAIL_OK;
    m->what = m->images != NULL ? "images" : "windows";
    q->dense = not_measured;
    if (!is_compared(q->measure)) {
        status = measure(m, "dense", m->dense, false, &q->dense);
    }
    if (status == GRAIL_OK && q->is_healed) {
        status = measure(m, "narrow", m->given, false, &q->before);
    } else if (status == GRAIL_OK) {
        status = measure(m, "plain cut", m->dense, true, &q->before);
        if (status == GRAIL_ERROR_UNSUPPORTED) { /* folded: the cut alone is no network */
            q->before = not_measured;
            status = GRAIL_OK;
        }
    }
    status = status == GRAIL_OK ? measure(m, "result", m->narrow, false, &q->result) : status;
    if (status == GRAIL_OK && q->measure == QUALITY_PERPLEXITY) {
        status = ask(m, "dense", m->dense, &q->dense_answers);
        status = status == GRAIL_OK ? ask(m, "result", m->narrow, &q->answers) : status;
    }
    return status;
}

/* The data are read, and the networks run, as in the run itself. *images is owned: of a network
 * that reads some. */
static grail_status begin_measuring(const grail_model *dense, quality_kind *out,
                                    grail_images **images)
{
    grail_model_facts facts = {0};
    asked.text = asked.compress.read.text;
    asked.text.path = asked.data;
    asked.compute.backend = asked.compress.run.backend;
    asked.compute.precision = asked.compress.run.precision;
    grail_status status = grail_model_describe(dense, &facts);
    *out = facts.gives_features != 0 ? QUALITY_COSINE : QUALITY_PERPLEXITY;
    if (status == GRAIL_OK && facts.reads_images != 0) {
        const grail_image_source source = images_source();
        status = grail_images_open(dense, &source, images);
        const bool has_classes = facts.classes > 1 && facts.outputs == 1 && facts.inputs == 0 &&
                                 status == GRAIL_OK && grail_images_labelled(*images) > 0;
        *out = has_classes ? QUALITY_TOP1 : QUALITY_OUTPUTS;
    }
    return status;
}

static grail_status open_networks(const char *result, measurement *m)
{
    const char *teacher = asked.compress.heal.teacher;
    const char *model = asked.compress.read.model;
    grail_status status = shared_options_open_model(teacher == NULL ? model : teacher, &m->dense);
    if (status == GRAIL_OK && teacher != NULL) {
        status = shared_options_open_model(model, &m->given);
    }
    if (status == GRAIL_OK) {
        status = shared_options_open_model(result, &m->narrow);
    }
    if (status == GRAIL_OK) {
        status = begin_measuring(m->dense, &m->found->measure, &m->images);
    }
    return status;
}

/* Measures the sealed result, and what it was made from. */
static grail_status quality_measure(const char *result, quality *out)
{
    quality q = {.data = asked.data, .is_healed = asked.compress.heal.teacher != NULL};
    measurement m = {.found = &q};
    grail_status status = open_networks(result, &m);
    if (status == GRAIL_OK) {
        status = measure_all(&m);
    }
    if (status == GRAIL_OK) {
        *out = q;
    } else {
        quality_fini(&q);
    }
    grail_images_close(m.images);
    grail_model_close(m.narrow);
    grail_model_close(m.given);
    grail_model_close(m.dense);
    return status;
}

static grail_status try_images(const grail_model *model, const grail_images *images,
                               quality_forecast *out)
{
    enum { TRIED = 64 };
    grail_accuracy a = {0};
    grail_status status = grail_accuracy_describe(model, images, asked.image_count, &a);
    *out = (quality_forecast){.samples_name = "images", .samples = a.images};
    if (status == GRAIL_OK && asked.compress.output.dry_run == 0) {
        const int64_t held = grail_images_count(images);
        status = grail_accuracy_measure(model, images, held < TRIED ? held : TRIED, &asked.compute,
                                        NULL, NULL, &a);
    }
    if (status == GRAIL_OK) {
        print_class_warnings(asked.data, &a, false);
        snprintf(out->class_notice, sizeof out->class_notice, "%s", a.class_notice);
    }
    return status;
}

static grail_status try_text(const grail_model *model, quality_forecast *out)
{
    grail_perplexity p = {0};
    grail_status status = grail_perplexity_describe(model, &asked.text, asked.windows, &p);
    *out = (quality_forecast){.samples_name = "windows", .samples = p.windows};
    return status != GRAIL_OK || asked.compress.output.dry_run != 0
               ? status
               : grail_perplexity_measure(model, &asked.text, 1, &asked.compute, NULL, NULL, &p);
}

static grail_status try_vectors(const grail_model *model, quality_forecast *out)
{
    grail_comparison c = {0};
    grail_status status = grail_verify_describe(model, &asked.text, asked.windows, &c);
    if (status != GRAIL_OK) {
        return status;
    }
    *out = (quality_forecast){.samples_name = vectors_name(&c), .samples = c.pooled};
    print_notice(asked.compress.read.model, c.pooling_notice[0] != 0 ? c.pooling_notice : NULL,
                 NULL);
    return asked.compress.output.dry_run != 0
               ? GRAIL_OK
               : grail_verify(model, model, &asked.text, 1, &asked.compute, NULL, NULL, &c);
}

static grail_status try_outputs(const grail_model *model, const grail_images *images,
                                quality_forecast *out)
{
    grail_comparison c = {0};
    const grail_image_source source = images_source();
    const int64_t all = grail_images_count(images);
    const int64_t most = asked.image_count;
    *out = (quality_forecast){.samples_name = "images",
                              .samples = most > 0 && most < all ? most : all};
    return asked.compress.output.dry_run != 0
               ? GRAIL_OK
               : grail_verify_images(model, model, &source, 1, &asked.compute, NULL, NULL, &c);
}

int quality_try(quality_forecast *out)
{
    const grail_model *model = grail_session_model(asked.compress.read.session);
    quality_kind kind = QUALITY_PERPLEXITY;
    *out = (quality_forecast){0};
    if (asked.data == NULL) {
        return EXIT_OK;
    }
    grail_images *images = NULL;
    grail_status status = begin_measuring(model, &kind, &images);
    if (status == GRAIL_OK) {
        status = kind == QUALITY_TOP1      ? try_images(model, images, out)
                 : kind == QUALITY_COSINE  ? try_vectors(model, out)
                 : kind == QUALITY_OUTPUTS ? try_outputs(model, images, out)
                                           : try_text(model, out);
    }
    grail_images_close(images);
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}

/* As code between backquotes, which one of its own would end. */
static void put_name(const char *name, char *text, size_t size)
{
    grail_escape(GRAIL_ESCAPE_LINE, outputs_name(name), text, size);
    for (char *at = strchr(text, '`'); at != NULL; at = strchr(at, '`')) {
        *at = '\'';
    }
}

/* Text of a value, as a line or a row of a table says it. */
static void format_value(quality_kind measure, const quality_value *v, bool row, char *text,
                         size_t size)
{
    if (measure == QUALITY_TOP1) {
        snprintf(text, size, row ? "%.2f +- %.2f" : "top-1 %.2f %% +- %.2f", 100.0 * v->value,
                 100.0 * v->error);
        return;
    }
    if (measure == QUALITY_OUTPUTS) {
        snprintf(text, size, row ? "%.4g" : "relative error %.4g", v->value);
        char name[200];
        put_name(v->worst, name, sizeof name);
        append_text(text, size, row ? " | `%s`" : " (worst output: %s)", name);
        if (!isnan(v->same)) {
            append_text(text, size, row ? " | %.1f" : ", same class %.1f %%", 100.0 * v->same);
        }
        return;
    }
    snprintf(text, size, "%s%.4f",
             row                         ? ""
             : measure == QUALITY_COSINE ? "cosine "
                                         : "perplexity ",
             v->value);
    if (!isnan(v->error)) { /* as of one document */
        append_text(text, size, " +- %.4f", v->error);
    }
    if (measure == QUALITY_COSINE && !isnan(v->same)) {
        append_text(text, size, row ? " | %.1f +- %.1f" : ", same nearest one %.1f %% +- %.1f",
                    100.0 * v->same, 100.0 * v->same_error);
    } else if (measure == QUALITY_COSINE && row) {
        append_text(text, size, " | -");
    }
}

static void print_value(const char *what, quality_kind measure, const quality_value *v)
{
    char text[320];
    if (isnan(v->value)) {
        print_out("  %-10s -  (units were folded into others)\n", what);
    } else {
        format_value(measure, v, false, text, sizeof text);
        print_out("  %-10s %s\n", what, text);
    }
}

/* The base name of a path: the card names no places of this machine. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash[1] == 0 ? path : slash + 1;
}

static void put_row(const char *what, quality_kind measure, const quality_value *v, char *text,
                    size_t size)
{
    char value[320];
    if (!isnan(v->value)) {
        format_value(measure, v, true, value, sizeof value);
        append_text(text, size, "| %s | %s |\n", what, value);
    }
}

/* The head of the table. */
static void put_head(const quality *q, const char *name, char *text, size_t size)
{
    if (q->measure == QUALITY_COSINE) {
        snprintf(text, size,
                 "Vectors (%s-pooled) of the %lld %s of `%s`, compared with those of the "
                 "dense network:\n\n| | mean cosine | same nearest one, %% |\n|---|---|---|\n",
                 q->pooling, (long long)q->samples, q->samples_name, name);
        return;
    }
    if (q->measure == QUALITY_OUTPUTS) {
        snprintf(
            text, size,
            "Outputs of the %lld images of `%s`, compared with those of the dense network; the "
            "largest of their relative errors:\n\n| | relative error | output "
            "|%s\n|---|---|---|%s\n",
            (long long)q->samples, name, isnan(q->result.same) ? "" : " same class, % |",
            isnan(q->result.same) ? "" : "---|");
        return;
    }
    snprintf(text, size, "On `%s`:\n\n| | %s |\n|---|---|\n", name,
             q->measure == QUALITY_TOP1 ? "top-1 accuracy, %" : "perplexity");
}

/* Each output by itself, where there are several. */
static void put_outputs(const quality *q, char *text, size_t size)
{
    if (q->output_count < 2) {
        return;
    }
    append_text(text, size, "\n| output | relative error | KL |\n|---|---|---|\n");
    for (int64_t i = 0; i < q->output_count; i++) {
        const grail_output_comparison *o = &q->result.outputs[i];
        char name[200];
        put_name(o->name, name, sizeof name);
        append_text(text, size, "| `%s` | %.4g |", name, o->relative_error);
        if (isnan(o->mean_kl)) {
            append_text(text, size, " - |\n");
        } else {
            append_text(text, size, " %.4g |\n", o->mean_kl);
        }
    }
}

/* "" where the data holds nothing of the calibration set. */
static void describe_seen(const quality *q, char *text, size_t size)
{
    text[0] = 0;
    if (q->seen.images > 0 && q->seen.images < q->seen.measured) {
        snprintf(text, size,
                 "the network was calibrated on %lld of the %lld images, so it says less about "
                 "other images",
                 (long long)q->seen.images, (long long)q->seen.measured);
    } else if (q->seen.images > 0 || q->seen.share >= 1.0) {
        snprintf(text, size,
                 "the network was calibrated on this data, so it says little about "
                 "other data");
    } else if (q->seen.share > 0.0) {
        snprintf(text, size,
                 "%.1f %% of the recorded calibration text is in this data, so it says less about "
                 "other data",
                 100.0 * q->seen.share);
    }
}

static grail_status add_to_card(const quality *q, grail_compression *c)
{
    char text[8000] = "";
    char seen[200];
    char name[200];
    put_name(base_name(q->data), name, sizeof name);
    put_head(q, name, text, sizeof text);
    put_row("dense network", q->measure, &q->dense, text, sizeof text);
    put_row(q->is_healed ? "before it was healed" : "the same units removed, nothing repaired",
            q->measure, &q->before, text, sizeof text);
    put_row("this network", q->measure, &q->result, text, sizeof text);
    put_outputs(q, text, sizeof text);
    answers_append(&q->dense_answers, &q->answers, text, sizeof text);
    describe_seen(q, seen, sizeof seen);
    if (seen[0] != 0) {
        append_text(text, sizeof text, "\nNote: %s.\n", seen);
        print_error("grail: warning: --eval: %s\n", seen);
    }
    return grail_compression_card_add(c, "Quality", text);
}

/* The result is sealed, so the same command with --resume measures it and computes nothing again.
 */
static int print_unmeasured(grail_status status, const char *result, const char *output)
{
    char options[256];
    if (status == GRAIL_ERROR_CANCELLED) {
        print_error("grail: interrupted while measuring");
        command_line_print_resume(output);
        return EXIT_FAILED;
    }
    options_of_fields(grail_error_fields(), options, sizeof options);
    print_error("grail: cannot measure: %s%s; the weights are complete in '%s', and "
                "--resume with another --eval, or with none, finishes the run\n",
                grail_error_message(), options, result);
    return status == GRAIL_ERROR_NUMERIC ? EXIT_NUMERIC : EXIT_FAILED;
}

int quality_finish(grail_compression *c, quality *out)
{
    const char *result = NULL;
    grail_status status = asked.data == NULL ? GRAIL_OK : grail_compression_seal(c, &result);
    if (status == GRAIL_OK && asked.data != NULL) {
        status = quality_measure(result, out);
        if (status != GRAIL_OK) {
            return print_unmeasured(status, result, asked.compress.output.path);
        }
        status = add_to_card(out, c);
    }
    if (status == GRAIL_OK) {
        status = grail_compression_finish(c);
    }
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}

void quality_print(const quality *q)
{
    if (q->data == NULL) {
        return;
    }
    if (q->measure == QUALITY_COSINE) {
        print_out("quality on %s: %s-pooled vectors of %lld %s, compared with those of the "
                  "dense network\n",
                  q->data, q->pooling, (long long)q->samples, q->samples_name);
    } else if (q->measure == QUALITY_OUTPUTS) {
        print_out("quality on %s: outputs of %lld images, compared with those of the dense "
                  "network\n",
                  q->data, (long long)q->samples);
    } else {
        print_out("quality on %s:\n", q->data);
        print_value("dense", q->measure, &q->dense);
    }
    print_value(q->is_healed ? "narrow" : "plain cut", q->measure, &q->before);
    print_value(q->is_healed ? "healed" : "result", q->measure, &q->result);
    if (q->output_count > 1) {
        outputs_print(q->output_count, q->result.outputs);
    }
    answers_print(&q->dense_answers, &q->answers);
}

void quality_fini(quality *q)
{
    free(q->before.outputs);
    free(q->result.outputs);
}

static json_t *add_outputs(const quality *q, json_t *object)
{
    if (object != NULL && q->measure == QUALITY_OUTPUTS) {
        json_object_set_new(object, "images", json_integer(q->samples));
        json_object_set_new(object, "worst", json_text(q->result.worst));
        json_object_set_new(object, "outputs", outputs_json(q->output_count, q->result.outputs));
        json_object_set_new(object, q->is_healed ? "narrow_same_class" : "plain_same_class",
                            json_number(q->before.same));
        json_object_set_new(object, "result_same_class", json_number(q->result.same));
    }
    return object;
}

static json_t *add_vectors(const quality *q, json_t *object)
{
    if (object != NULL && q->measure == QUALITY_COSINE) {
        json_object_set_new(object, "pooling", json_text(q->pooling));
        json_object_set_new(object, q->samples_name, json_integer(q->samples));
        json_object_set_new(object, "result_interval", json_number(q->result.error));
        json_object_set_new(object, q->is_healed ? "narrow_nearest" : "plain_nearest",
                            json_number(q->before.same));
        json_object_set_new(object, "result_nearest", json_number(q->result.same));
        json_object_set_new(object, "result_nearest_interval", json_number(q->result.same_error));
    }
    return object;
}

json_t *quality_json(const quality *q)
{
    static const char *const names[] = {[QUALITY_PERPLEXITY] = "perplexity",
                                        [QUALITY_TOP1] = "top1",
                                        [QUALITY_COSINE] = "cosine",
                                        [QUALITY_OUTPUTS] = "relative_error"};
    if (q->data == NULL) {
        return json_null();
    }
    json_t *all =
        json_of("data", J(q->data), "measure", J(names[q->measure]), "dense", J(q->dense.value),
                q->is_healed ? "narrow" : "plain", J(q->before.value), "result", J(q->result.value),
                "calibration_share", J(q->seen.share), NULL);
    if (all != NULL && q->measure == QUALITY_PERPLEXITY) {
        json_object_set_new(all, "answers", answers_json(&q->dense_answers, &q->answers));
    }
    return add_outputs(q, add_vectors(q, all));
}
