#include "quality.h"

#include "command_line.h"
#include "interrupt.h"
#include "notices.h"
#include "print.h"

#include <grail/escape.h>
#include <grail/eval.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The networks that are compared, and what all three measurements have in common. */
typedef struct measurement {
    grail_model *dense, *narrow;
    grail_model *given; /* what was healed; NULL where `dense` was cut */
    quality_kind measure;
    grail_images *images; /* NULL: text */
    grail_text_source text;
    const measured_options *asked;
    grail_compute compute;
    seen_data seen;
    grail_comparison compared; /* the last one of an encoder */
    const char *now;           /* which network runs */
    bool quiet;
} measurement;

int quality_check(const command *c, const measured_options *e)
{
    if (e->data == NULL || access(e->data, R_OK) == 0) {
        return EXIT_OK;
    }
    print_error("grail %s: cannot read '%s' for --eval: %s\n", c->name, e->data, strerror(errno));
    return EXIT_FAILED;
}

static int watch(void *user, const grail_eval_progress *p)
{
    const measurement *m = user;
    if (!m->quiet) {
        print_progress(p->passed / (double)p->total, "measuring the %s: %lld/%lld %s", m->now,
                       (long long)p->passed, (long long)p->total,
                       m->images != NULL ? "images" : "windows");
        if (p->done == p->total) {
            print_progress_end();
        }
    }
    return interrupt_came();
}

static double share_of(int64_t part, int64_t all)
{
    return all > 0 ? (double)part / (double)all : 0.0;
}

static void note_seen(measurement *m, seen_data seen)
{
    if (seen.share > m->seen.share) {
        m->seen = seen;
    }
}

static grail_status measure_text(measurement *m, const grail_model *model, bool plain,
                                 quality_value *out)
{
    grail_perplexity p = {0};
    const grail_status status =
        plain ? grail_perplexity_of_cut(m->dense, m->narrow, &m->text, m->asked->windows,
                                        &m->compute, watch, m, &p)
              : grail_perplexity_measure(model, &m->text, m->asked->windows, &m->compute, watch, m,
                                         &p);
    note_seen(m, (seen_data){.share = p.is_calibration != 0
                                          ? 1.0
                                          : share_of(p.overlap_runs, p.calibration_runs)});
    *out = (quality_value){.value = p.perplexity, .error = p.error};
    return status;
}

static grail_status measure_images(measurement *m, const grail_model *model, bool plain,
                                   quality_value *out)
{
    grail_accuracy a = {0};
    const grail_status status =
        plain
            ? grail_accuracy_of_cut(m->dense, m->narrow, m->images, m->asked->images, &m->compute,
                                    watch, m, &a)
            : grail_accuracy_measure(model, m->images, m->asked->images, &m->compute, watch, m, &a);
    if (a.calibration_images == 0) { /* narrowed by an older grail, or not by grail */
        note_seen(m, (seen_data){.share = a.is_calibration != 0 ? 1.0 : 0.0});
    } else {
        note_seen(m, (seen_data){.share = share_of(a.calibration_found, a.calibration_images),
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
    grail_comparison *c = &m->compared;
    const grail_status status =
        plain
            ? grail_verify_of_cut(m->dense, m->narrow, &m->text, m->asked->windows, &m->compute,
                                  watch, m, c)
            : grail_verify(m->dense, model, &m->text, m->asked->windows, &m->compute, watch, m, c);
    if (status != GRAIL_OK) {
        return status;
    }
    note_seen(m, (seen_data){.share = c->is_calibration != 0
                                          ? 1.0
                                          : share_of(c->overlap_runs, c->calibration_runs)});
    *out = (quality_value){.value = c->mean_cosine,
                           .error = c->cosine_interval,
                           .nearest = c->same_nearest,
                           .nearest_error = c->nearest_interval};
    return interrupt_came() != 0 ? GRAIL_ERROR_CANCELLED : GRAIL_OK;
}

static grail_status measure(measurement *m, const char *now, const grail_model *model, bool plain,
                            quality_value *out)
{
    m->now = now;
    return m->measure == QUALITY_TOP1     ? measure_images(m, model, plain, out)
           : m->measure == QUALITY_COSINE ? measure_vectors(m, model, plain, out)
                                          : measure_text(m, model, plain, out);
}

static const quality_value not_measured = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};

static grail_status measure_before(measurement *m, quality *q)
{
    if (m->given != NULL) {
        return measure(m, "narrow", m->given, false, &q->before);
    }
    const grail_status status = measure(m, "plain cut", m->dense, true, &q->before);
    if (status == GRAIL_ERROR_UNSUPPORTED) { /* folded: the cut alone is no network of its own */
        q->before = not_measured;
        return GRAIL_OK;
    }
    return status;
}

/* An encoder's vectors are compared with those of the dense network. */
static grail_status measure_all(measurement *m, quality *q)
{
    q->dense = not_measured;
    grail_status status =
        m->measure == QUALITY_COSINE ? GRAIL_OK : measure(m, "dense", m->dense, false, &q->dense);
    if (status == GRAIL_OK) {
        status = measure_before(m, q);
    }
    if (status == GRAIL_OK) {
        status = measure(m, "result", m->narrow, false, &q->result);
    }
    q->seen = m->seen;
    q->samples = m->compared.pooled;
    q->samples_name = vectors_name(&m->compared);
    memcpy(q->pooling, m->compared.pooling, sizeof q->pooling);
    return status;
}

static quality_kind measure_of(const grail_model_facts *facts)
{
    return facts->reads_images != 0     ? QUALITY_TOP1
           : facts->gives_features != 0 ? QUALITY_COSINE
                                        : QUALITY_PERPLEXITY;
}

/* --split is about the calibration set; the usual one of an evaluation is the test set. */
static grail_status open_images(const run_options *r, const char *data, measurement *m)
{
    grail_image_source source = r->images; /* that of the run goes on naming the calibration set */
    source.path = data;
    source.split = NULL;
    return grail_images_open(m->dense, &source, &m->images);
}

static grail_status open_networks(run_options *r, const char *data, const char *result,
                                  measurement *m)
{
    grail_model_facts facts = {0};
    const grail_model_options reading = {.settings = r->settings.values,
                                         .setting_count = r->settings.count};
    const char *teacher = r->compress.heal.teacher;
    grail_status status = grail_model_open_with(teacher == NULL ? r->compress.read.model : teacher,
                                                &reading, &m->dense);
    if (status == GRAIL_OK && teacher != NULL) {
        status = grail_model_open_with(r->compress.read.model, &reading, &m->given);
    }
    if (status == GRAIL_OK) {
        status = grail_model_open_with(result, &reading, &m->narrow);
    }
    if (status == GRAIL_OK) {
        status = grail_model_describe(m->dense, &facts);
    }
    m->measure = measure_of(&facts);
    if (status == GRAIL_OK && m->measure == QUALITY_TOP1) {
        status = open_images(r, data, m);
    }
    return status;
}

/* Measures the model that `r` narrowed and the sealed result in `result`. */
static grail_status quality_measure(run_options *r, const measured_options *e, const char *result,
                                    bool quiet, quality *out)
{
    const char *data = e->data;
    measurement m = {
        .text = r->compress.read.text,
        .asked = e,
        .compute = {.backend = r->compress.run.backend, .precision = r->compress.run.precision},
        .quiet = quiet};
    quality q = {.data = data, .is_healed = r->compress.heal.teacher != NULL};
    m.text.path = data;
    grail_status status = open_networks(r, data, result, &m);
    q.measure = m.measure;
    if (status == GRAIL_OK) {
        status = measure_all(&m, &q);
    }
    if (status == GRAIL_OK) {
        *out = q;
    }
    grail_images_close(m.images);
    grail_model_close(m.narrow);
    grail_model_close(m.given);
    grail_model_close(m.dense);
    return status;
}

static grail_status try_images(run_options *r, measurement *m, quality_forecast *out)
{
    enum { TRIED = 64 };
    grail_accuracy a = {0};
    grail_status status = open_images(r, m->asked->data, m);
    if (status == GRAIL_OK) {
        status = grail_accuracy_describe(m->dense, m->images, m->asked->images, &a);
        *out = (quality_forecast){.samples_name = "images", .samples = a.images};
    }
    if (status == GRAIL_OK && r->compress.output.dry_run == 0) {
        const int64_t held = grail_images_count(m->images);
        status = grail_accuracy_measure(m->dense, m->images, held < TRIED ? held : TRIED,
                                        &m->compute, NULL, NULL, &a);
    }
    if (status == GRAIL_OK) {
        print_class_warnings(m->asked->data, &a, false);
        snprintf(out->class_notice, sizeof out->class_notice, "%s", a.class_notice);
    }
    grail_images_close(m->images);
    return status;
}

static grail_status try_text(const run_options *r, const measurement *m, quality_forecast *out)
{
    grail_perplexity p = {0};
    grail_status status = grail_perplexity_describe(m->dense, &m->text, m->asked->windows, &p);
    *out =
        (quality_forecast){.samples_name = "windows", .samples = p.windows, .context = p.context};
    return status != GRAIL_OK || r->compress.output.dry_run != 0
               ? status
               : grail_perplexity_measure(m->dense, &m->text, 1, &m->compute, NULL, NULL, &p);
}

static grail_status try_vectors(const run_options *r, const measurement *m, quality_forecast *out)
{
    grail_comparison c = {0};
    grail_status status = grail_verify_describe(m->dense, &m->text, m->asked->windows, &c);
    if (status != GRAIL_OK) {
        return status;
    }
    *out = (quality_forecast){
        .samples_name = vectors_name(&c), .samples = c.pooled, .context = c.context};
    print_notice(r->compress.read.model, c.pooling_notice[0] != 0 ? c.pooling_notice : NULL, NULL);
    return r->compress.output.dry_run != 0
               ? GRAIL_OK
               : grail_verify(m->dense, m->dense, &m->text, 1, &m->compute, NULL, NULL, &c);
}

int quality_try(run_options *r, const measured_options *e, quality_forecast *out)
{
    measurement m = {
        .dense = grail_session_model(r->compress.read.session),
        .text = r->compress.read.text,
        .asked = e,
        .compute = {.backend = r->compress.run.backend, .precision = r->compress.run.precision}};
    grail_model_facts facts = {0};
    *out = (quality_forecast){0};
    if (e->data == NULL) {
        return EXIT_OK;
    }
    m.text.path = e->data;
    grail_status status = grail_model_describe(m.dense, &facts);
    if (status == GRAIL_OK) {
        m.measure = measure_of(&facts);
        status = m.measure == QUALITY_TOP1     ? try_images(r, &m, out)
                 : m.measure == QUALITY_COSINE ? try_vectors(r, &m, out)
                                               : try_text(r, &m, out);
    }
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
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
    snprintf(text, size, "%s%.4f",
             row                         ? ""
             : measure == QUALITY_COSINE ? "cosine "
                                         : "perplexity ",
             v->value);
    if (!isnan(v->error)) { /* as of one document */
        snprintf(text + strlen(text), size - strlen(text), " +- %.4f", v->error);
    }
    if (measure == QUALITY_COSINE && !isnan(v->nearest)) {
        snprintf(text + strlen(text), size - strlen(text),
                 row ? " | %.1f +- %.1f" : ", same nearest one %.1f %% +- %.1f", 100.0 * v->nearest,
                 100.0 * v->nearest_error);
    } else if (measure == QUALITY_COSINE && row) {
        snprintf(text + strlen(text), size - strlen(text), " | -");
    }
}

static void print_value(const char *what, quality_kind measure, const quality_value *v)
{
    char text[128];
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
    char value[128];
    const size_t used = strlen(text);
    if (!isnan(v->value)) {
        format_value(measure, v, true, value, sizeof value);
        snprintf(text + used, size - used, "| %s | %s |\n", what, value);
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
    snprintf(text, size, "On `%s`:\n\n| | %s |\n|---|---|\n", name,
             q->measure == QUALITY_TOP1 ? "top-1 accuracy, %" : "perplexity");
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
    char text[1000] = "";
    char seen[200];
    char name[200];
    grail_escape(GRAIL_ESCAPE_LINE, base_name(q->data), name, sizeof name);
    for (char *at = strchr(name, '`'); at != NULL; at = strchr(at, '`')) {
        *at = '\''; /* would end the code */
    }
    put_head(q, name, text, sizeof text);
    put_row("dense network", q->measure, &q->dense, text, sizeof text);
    put_row(q->is_healed ? "before it was healed" : "the same units removed, nothing repaired",
            q->measure, &q->before, text, sizeof text);
    put_row("this network", q->measure, &q->result, text, sizeof text);
    describe_seen(q, seen, sizeof seen);
    if (seen[0] != 0) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "\nNote: %s.\n", seen);
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

int quality_finish(grail_compression *c, run_options *r, const measured_options *e, bool quiet,
                   quality *out)
{
    const char *result = NULL;
    grail_status status = e->data == NULL ? GRAIL_OK : grail_compression_seal(c, &result);
    if (status == GRAIL_OK && e->data != NULL) {
        status = quality_measure(r, e, result, quiet, out);
        if (status != GRAIL_OK) {
            return print_unmeasured(status, result, r->compress.output.path);
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
    } else {
        print_out("quality on %s:\n", q->data);
        print_value("dense", q->measure, &q->dense);
    }
    print_value(q->is_healed ? "narrow" : "plain cut", q->measure, &q->before);
    print_value(q->is_healed ? "healed" : "result", q->measure, &q->result);
}

static json_t *add_vectors(const quality *q, json_t *object)
{
    if (object != NULL && q->measure == QUALITY_COSINE) {
        json_object_set_new(object, "pooling", json_text(q->pooling));
        json_object_set_new(object, q->samples_name, json_integer(q->samples));
        json_object_set_new(object, "result_interval", json_number_or_null(q->result.error));
        json_object_set_new(object, q->is_healed ? "narrow_nearest" : "plain_nearest",
                            json_number_or_null(q->before.nearest));
        json_object_set_new(object, "result_nearest", json_number_or_null(q->result.nearest));
        json_object_set_new(object, "result_nearest_interval",
                            json_number_or_null(q->result.nearest_error));
    }
    return object;
}

json_t *quality_json(const quality *q)
{
    static const char *const names[] = {
        [QUALITY_PERPLEXITY] = "perplexity", [QUALITY_TOP1] = "top1", [QUALITY_COSINE] = "cosine"};
    if (q->data == NULL) {
        return json_null();
    }
    return add_vectors(
        q, json_pack("{s:o, s:o, s:o, s:o, s:f, s:f}", "data", json_text(q->data), "measure",
                     json_text(names[q->measure]), "dense", json_number_or_null(q->dense.value),
                     q->is_healed ? "narrow" : "plain", json_number_or_null(q->before.value),
                     "result", q->result.value, "calibration_share", q->seen.share));
}
