#include "study/sweep/cell_run.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "study/results/line_fields.h"

#include <grail/machine.h>
#include <grail/plan.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

grail_model_options sweep_reading(const sweep_checkpoint *c)
{
    return (grail_model_options){.settings = (const char *const *)c->settings,
                                 .setting_count = c->setting_count};
}

/* -- opening -----------------------------------------------------------------------------------
 */

static grail_status note_kinds(const grail_model *model, sweep_checkpoint_data *data)
{
    grail_status status = GRAIL_OK;
    grail_site_list *sites = NULL;
    TRY(grail_model_sites(model, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        const grail_site_facts site = grail_site_list_at(sites, i);
        for (int k = 0; k < SWEEP_MOST_KINDS && grail_site_kind_at(k) != NULL; k++) {
            data->has_kind[k] = data->has_kind[k] || strcmp(grail_site_kind_at(k), site.kind) == 0;
        }
    }
out:
    grail_site_list_free(sites);
    return status;
}

static grail_status note_input(const grail_model *model, sweep_checkpoint *c)
{
    grail_model_facts facts = {0};
    CHECK(grail_model_describe(model, &facts));
    c->input = facts.reads_images != 0 ? INPUT_IS_IMAGES : INPUT_IS_TEXT;
    if (facts.reads_images != 0 && facts.classes < 2) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "'%s' gives features, not classes; a sweep measures accuracy, which needs a "
            "checkpoint with a classification head",
            facts.directory);
    }
    if (facts.reads_images == 0 && facts.gives_features != 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' is an encoder, which gives hidden states; a sweep of networks that "
                         "read text measures perplexity, which needs scores of a next token",
                         facts.directory);
    }
    return GRAIL_OK;
}

static grail_status check_text(const sweep_data *text)
{
    return file_exists(text->path)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_IO, "%s: cannot open the text: there is no such file",
                           text->path);
}

static grail_status open_images(const grail_model *model, const sweep_data *images,
                                grail_images **out)
{
    CHECK(grail_images_open(model, &images->images, out));
    if (images->count > grail_images_count(*out)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%lld images were requested, but '%s' holds %lld",
                         (long long)images->count, images->path,
                         (long long)grail_images_count(*out));
    }
    return GRAIL_OK;
}

/* A network without anything to measure it on would leave lines without a result. */
static grail_status open_evaluations(const sweep_recipe *recipe, int index,
                                     sweep_checkpoint_data *data)
{
    int found = 0;
    const int count = recipe->evaluation.count;
    CHECK(memory_new(&data->images, (size_t)count, sizeof data->images[0]));
    data->image_sets = count;
    for (int e = 0; e < count; e++) {
        const sweep_data *d = &recipe->evaluation.list[e];
        if (sweep_data_serves(d, &recipe->checkpoints, index)) {
            CHECK(d->kind == DATA_TEXT ? check_text(d)
                                       : open_images(data->model, d, &data->images[e]));
            found++;
        }
    }
    if (found == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "it reads %s, but no evaluation of the recipe does",
                         recipe->checkpoints.list[index].input == INPUT_IS_TEXT ? "text"
                                                                                : "images");
    }
    return GRAIL_OK;
}

static grail_status open_calibrations(const sweep_recipe *recipe, int index,
                                      sweep_checkpoint_data *data)
{
    const int count = recipe->calibration.count;
    CHECK(memory_new(&data->calibration_images, (size_t)count, sizeof data->calibration_images[0]));
    for (int c = 0; c < count; c++) {
        const sweep_data *d = &recipe->calibration.list[c];
        grail_images *samples = NULL;
        data->calibration_images[c] = -1;
        if (!sweep_data_serves(d, &recipe->checkpoints, index)) {
            continue;
        }
        if (d->kind == DATA_TEXT) {
            CHECK(check_text(d));
            continue;
        }
        CHECK(open_images(data->model, d, &samples));
        data->calibration_images[c] = grail_images_count(samples);
        grail_images_close(samples);
    }
    return GRAIL_OK;
}

grail_status sweep_checkpoint_open(sweep_recipe *recipe, int index, sweep_checkpoint_data *out)
{
    grail_status status = GRAIL_OK;
    sweep_checkpoint *named = &recipe->checkpoints.list[index];
    const grail_model_options reading = sweep_reading(named);
    sweep_checkpoint_data data = {0};
    TRY(grail_model_open_with(named->opens, &reading, &data.model));
    TRY(note_input(data.model, named));
    TRY(note_kinds(data.model, &data));
    TRY(open_evaluations(recipe, index, &data));
    TRY(open_calibrations(recipe, index, &data));
    *out = data;
    data = (sweep_checkpoint_data){0};
out:
    sweep_checkpoint_close(&data);
    return status;
}

void sweep_checkpoint_close(sweep_checkpoint_data *data)
{
    for (int e = 0; e < data->image_sets; e++) {
        grail_images_close(data->images[e]);
    }
    memory_free(data->images);
    memory_free(data->calibration_images);
    grail_model_close(data->model);
    *data = (sweep_checkpoint_data){0};
}

static bool cuts_any(const sweep_choice *choice, const sweep_checkpoint_data *data)
{
    bool found = false;
    for (int k = 0; k < SWEEP_MOST_KINDS && grail_site_kind_at(k) != NULL; k++) {
        found = found || (data->has_kind[k] && sweep_choice_cuts(choice, grail_site_kind_at(k)));
    }
    return found;
}

grail_status sweep_cell_check(const sweep_recipe *recipe, const sweep_checkpoint_data *data,
                              const sweep_cell *cell)
{
    const int64_t images = data->calibration_images[cell->calibration];
    if (!cuts_any(&recipe->choices.list[cell->choice], data)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "checkpoint \"%s\": the network has none of the kinds of sites that the "
                         "recipe cuts",
                         cell->settings.checkpoint);
    }
    if (images >= 0 && cell->settings.samples > images) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%lld samples were requested, but '%s' holds %lld images",
                         (long long)cell->settings.samples,
                         recipe->calibration.list[cell->calibration].path, (long long)images);
    }
    return GRAIL_OK;
}

/* -- options -----------------------------------------------------------------------------------
 */

/* The options of a cell; strings are borrowed from the recipe. */
static grail_status options_of(const sweep_recipe *recipe, const sweep_cell *cell,
                               grail_plan_options *out)
{
    const line_settings *s = &cell->settings;
    const sweep_choice *choice = &recipe->choices.list[cell->choice];
    const sweep_data *samples = &recipe->calibration.list[cell->calibration];
    grail_compress_options *o = &out->compress;
    CHECK(sweep_choice_options(choice, out));
    if (samples->kind == DATA_TEXT) {
        o->read.text = samples->text;
    } else {
        o->read.images = &samples->images;
    }
    o->read.samples = s->samples;
    o->read.seed = (uint64_t)s->seed;
    o->cut.selector = s->selector;
    for (int i = 0; i < choice->kind_count; i++) {
        *grail_compress_sparsity(o, choice->kinds[i]) = s->sparsity;
    }
    o->fit.compensate = variant_compensation(s->variant);
    o->fit.repair = variant_repairs(s->variant) ? 1 : 0;
    o->fit.open_loop = s->open_loop ? 1 : 0;
    o->heal.what = heal_kind_name(variant_heal(s->variant));
    return GRAIL_OK;
}

grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out)
{
    grail_plan_options options;
    CHECK(options_of(recipe, cell, &options));
    if (sweep_choice_plans(&recipe->choices.list[cell->choice])) {
        options.compress.cut.select = "open"; /* statistics of the dense network at all sites */
    }
    return grail_compress_estimate(model, &options.compress, out);
}

/* -- running -----------------------------------------------------------------------------------
 */

static int asked(const sweep_context *context)
{
    return context->should_stop(context->user);
}

static int watch_sites(void *user, const grail_site_report *report, int block, int blocks,
                       double seconds)
{
    (void)report;
    (void)block;
    (void)blocks;
    (void)seconds;
    return asked(user);
}

static int watch_healing(void *user, const grail_healing *now)
{
    (void)now;
    return asked(user);
}

static int watch_trials(void *user, const grail_plan_trial *trial)
{
    (void)trial;
    return asked(user);
}

/* The kinds of sites of a plan: "ffn,heads". */
static grail_status join_kinds(const sweep_choice *choice, buffer *out)
{
    for (int i = 0; i < choice->kind_count; i++) {
        CHECK(buffer_format(out, "%s%s", i > 0 ? "," : "", choice->kinds[i]));
    }
    return GRAIL_OK;
}

/* Widths that leave the share of the limit that the ratio does not remove. A search that is told to
 * stop ends with the best widths so far, which are no result of the cell. */
static grail_status make_plan(sweep_context *context, const sweep_cell *cell,
                              grail_plan_options *options, grail_plan **out)
{
    grail_status status = GRAIL_OK;
    buffer kinds = {0};
    buffer_init(&kinds, 1 << 10);
    TRY(join_kinds(&context->recipe->choices.list[cell->choice], &kinds));
    options->kinds = (const char *)kinds.bytes;
    options->ratio = 1.0 - cell->settings.sparsity;
    options->observer = watch_trials;
    options->observer_user = context;
    for (int k = 0; grail_site_kind_at(k) != NULL; k++) {
        *grail_compress_sparsity(&options->compress, grail_site_kind_at(k)) = 0.0;
    }
    TRY(grail_plan_make(options, out));
    options->compress.amount.plan_text = grail_plan_text(*out);
    if (asked(context) != 0) {
        FAIL(GRAIL_ERROR_CANCELLED, "cancelled while widths were chosen");
    }
out:
    options->kinds = NULL;
    buffer_fini(&kinds);
    return status;
}

static grail_status copy_site(const grail_site_report *s, line_site *out)
{
    CHECK(memory_copy_string(&out->name, s->name));
    CHECK(memory_copy_string(&out->kind, s->kind));
    out->units = (double)s->units;
    out->kept = (double)s->kept;
    out->fit_before = s->fit.fit_before;
    out->fit_after = s->fit.fit_after;
    out->held_before = s->fit.held_before;
    out->held_after = s->fit.held_after;
    return GRAIL_OK;
}

static grail_status copy_sites(const grail_compression *c, sweep_outcome *outcome)
{
    const int count = grail_compression_site_count(c);
    CHECK(memory_new(&outcome->line.sites, (size_t)count, sizeof outcome->line.sites[0]));
    outcome->line.site_count = count;
    for (int i = 0; i < count; i++) {
        const grail_site_report s = grail_compression_site(c, i);
        CHECK(copy_site(&s, &outcome->line.sites[i]));
    }
    return GRAIL_OK;
}

static grail_status copy_healings(const grail_compression *c, sweep_outcome *outcome)
{
    int count = 0;
    double seconds = 0.0;
    grail_healing h = {0};
    while (grail_compression_healing(c, count, &h) != 0) {
        count++;
    }
    CHECK(memory_new(&outcome->line.healings, (size_t)count, sizeof outcome->line.healings[0]));
    for (int i = 0; i < count && grail_compression_healing(c, i, &h) != 0; i++) {
        outcome->line.healings[outcome->line.healing_count++] = (line_healing){
            .block = h.block < 0 ? NOT_MEASURED : (double)h.block,
            .steps = (double)h.steps,
            .held_before = h.held_before,
            .held_after = h.held_after,
            .seconds = h.seconds,
        };
        seconds += h.seconds;
    }
    outcome->line.measures.seconds[SECONDS_HEAL] = seconds;
    return GRAIL_OK;
}

/* -- measuring ---------------------------------------------------------------------------------
 */

/* A measurement, with what it keeps of each image or window. */
typedef struct measuring {
    const sweep_context *context;
    grail_compression *narrow; /* NULL: the network is `model` */
    const grail_model *model;
    bool keeps;
    double *outcomes; /* owned */
    int count;
    grail_status status;
} measuring;

static int watch_measuring(void *user, const grail_eval_progress *p)
{
    measuring *m = user;
    if (m->keeps && m->status == GRAIL_OK) {
        m->status =
            memory_reserve(&m->outcomes, (size_t)(m->count + p->count), sizeof m->outcomes[0]);
    }
    if (m->keeps && m->status == GRAIL_OK) {
        memcpy(m->outcomes + m->count, p->results, (size_t)p->count * sizeof m->outcomes[0]);
        m->count += (int)p->count;
    }
    return m->status != GRAIL_OK || asked(m->context) != 0;
}

static grail_status measure_images(measuring *m, int e, line_evaluation *out, char hash[65],
                                   double *seconds)
{
    const sweep_data *d = &m->context->recipe->evaluation.list[e];
    const grail_images *images = m->context->data->images[e];
    const grail_compute compute = {.precision = m->context->recipe->precision};
    grail_accuracy a = {0};
    CHECK(
        m->narrow != NULL
            ? grail_compression_accuracy(m->narrow, images, d->count, watch_measuring, m, &a)
            : grail_accuracy_measure(m->model, images, d->count, &compute, watch_measuring, m, &a));
    out->measures.top1 = a.top1;
    out->measures.top5 = a.top5;
    out->measures.interval = a.interval;
    out->measures.images = (double)a.images;
    memcpy(hash, a.data_sha256, sizeof a.data_sha256);
    *seconds = a.seconds;
    return GRAIL_OK;
}

static grail_status measure_text(measuring *m, int e, line_evaluation *out, char hash[65],
                                 double *seconds)
{
    const sweep_data *d = &m->context->recipe->evaluation.list[e];
    const grail_compute compute = {.precision = m->context->recipe->precision};
    const double begin = clock_seconds();
    grail_perplexity p = {0};
    CHECK(m->narrow != NULL
              ? grail_compression_perplexity(m->narrow, &d->text, d->count, watch_measuring, m, &p)
              : grail_perplexity_measure(m->model, &d->text, d->count, &compute, watch_measuring, m,
                                         &p));
    if (!isfinite(p.perplexity)) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "%s: the mean loss of a token is %g, so that the perplexity is no number",
                         d->path, p.mean_nll);
    }
    out->measures.perplexity = p.perplexity;
    out->measures.perplexity_error = p.error;
    out->measures.windows = (double)p.windows;
    out->measures.context = (double)p.context;
    memcpy(hash, p.text_sha256, sizeof p.text_sha256);
    *seconds = clock_seconds() - begin;
    return GRAIL_OK;
}

/* A line of the only images is as it was before there were texts. */
static bool says_data(const sweep_data *d)
{
    return d->kind == DATA_TEXT || d->name != NULL;
}

static grail_status measure_one(const sweep_context *context, grail_compression *narrow,
                                const grail_model *model, int e, sweep_outcome *outcome)
{
    grail_status status = GRAIL_OK;
    const sweep_data *d = &context->recipe->evaluation.list[e];
    double *all = &outcome->line.measures.seconds[SECONDS_EVALUATE];
    double seconds = 0.0;
    measuring m = {.context = context,
                   .narrow = narrow,
                   .model = model,
                   .keeps = context->recipe->keeps_outcomes};
    line_evaluation made = {.name = d->name, .measures = line_not_measured()};
    TRY(d->kind == DATA_TEXT ? measure_text(&m, e, &made, outcome->hashes[e], &seconds)
                             : measure_images(&m, e, &made, outcome->hashes[e], &seconds));
    made.data_sha256 = says_data(d) ? outcome->hashes[e] : NULL;
    made.outcomes = m.outcomes;
    made.outcome_count = m.count;
    m.outcomes = NULL;
    *all = isnan(*all) ? seconds : *all + seconds;
    outcome->line.evaluations[outcome->line.evaluation_count++] = made;
out:
    memory_free(m.outcomes);
    return m.status == GRAIL_OK ? status : m.status;
}

/* A narrow network in memory, or a model, on everything that is for the checkpoint. */
static grail_status measure(const sweep_context *context, grail_compression *narrow,
                            const grail_model *model, sweep_outcome *outcome)
{
    const sweep_data_list *data = &context->recipe->evaluation;
    CHECK(memory_new(&outcome->hashes, (size_t)data->count, sizeof outcome->hashes[0]));
    CHECK(memory_new(&outcome->line.evaluations, (size_t)data->count,
                     sizeof outcome->line.evaluations[0]));
    for (int e = 0; e < data->count; e++) {
        if (sweep_data_serves(&data->list[e], &context->recipe->checkpoints, context->checkpoint)) {
            const char *name = data->list[e].name;
            const grail_status status = measure_one(context, narrow, model, e, outcome);
            CHECK(name == NULL ? status : error_in(status, "%s", name));
        }
    }
    return GRAIL_OK;
}

const char *sweep_result_text(const result_line *line, char text[SWEEP_RESULT_TEXT])
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < line->evaluation_count && used < SWEEP_RESULT_TEXT; i++) {
        const line_evaluation *e = &line->evaluations[i];
        const bool is_text = isfinite(e->measures.perplexity);
        used += (size_t)snprintf(
            text + used, SWEEP_RESULT_TEXT - used, "%s%s%.2f%s%s%s", i == 0 ? "" : ", ",
            i > 0     ? ""
            : is_text ? "perplexity "
                      : "top-1 ",
            is_text ? e->measures.perplexity : 100.0 * e->measures.top1, is_text ? "" : " %",
            e->name == NULL ? "" : " on ", e->name == NULL ? "" : e->name);
    }
    return text;
}

static grail_status run(sweep_context *context, grail_session *session, sweep_outcome *outcome)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    grail_plan *plan = NULL;
    grail_plan_options options;
    line_measures *m = &outcome->line.measures;
    TRY(options_of(context->recipe, outcome->cell, &options));
    options.compress.read.session = session;
    options.compress.run.memory = context->memory;
    options.compress.run.observer = watch_sites;
    options.compress.run.heal_observer = watch_healing;
    options.compress.run.observer_user = context;
    if (sweep_choice_plans(&context->recipe->choices.list[outcome->cell->choice])) {
        TRY(make_plan(context, outcome->cell, &options, &plan));
    }
    TRY(grail_compression_open(&options.compress, &c));
    TRY(grail_compression_run(c));
    TRY(measure(context, c, NULL, outcome));
    TRY(copy_sites(c, outcome));
    TRY(copy_healings(c, outcome));
    const grail_compression_totals totals = grail_compression_totals_get(c);
    m->parameters = (double)totals.parameters;
    m->macs = (double)totals.macs_per_token;
    m->seconds[SECONDS_CALIBRATE] = totals.calibrate_seconds;
    m->seconds[SECONDS_COMPENSATE] = totals.compensate_seconds;
out:
    grail_compression_close(c);
    grail_plan_free(plan);
    return status;
}

void sweep_cell_run(sweep_context *context, grail_session *session, sweep_outcome *outcome)
{
    const double begin = clock_seconds();
    outcome->line.measures = line_not_measured();
    outcome->status = run(context, session, outcome);
    outcome->error[0] = 0;
    if (outcome->status != GRAIL_OK) {
        error_copy(outcome->error, sizeof outcome->error);
    }
    outcome->line.measures.seconds[SECONDS_TOTAL] = clock_seconds() - begin;
    outcome->line.measures.peak_bytes = (double)grail_memory_peak();
}

result_line sweep_outcome_line(const sweep_outcome *outcome)
{
    result_line line = outcome->line;
    const bool failed = outcome->error[0] != 0;
    line.kind = failed ? LINE_FAILURE : LINE_CELL;
    line.settings = outcome->cell->settings;
    line.error = failed ? outcome->error : NULL;
    return line;
}

grail_status sweep_dense_measure(const sweep_context *context, sweep_outcome *outcome)
{
    grail_model_facts facts = {0};
    const sweep_checkpoint *named = &context->recipe->checkpoints.list[context->checkpoint];
    outcome->line = (result_line){.kind = LINE_DENSE,
                                  .settings = {.checkpoint = named->name},
                                  .path = named->path,
                                  .measures = line_not_measured()};
    CHECK(grail_model_describe(context->data->model, &facts));
    CHECK(measure(context, NULL, context->data->model, outcome));
    outcome->line.architecture = facts.architecture;
    outcome->line.measures.parameters = (double)facts.parameters;
    outcome->line.measures.macs = (double)facts.macs_per_token;
    return GRAIL_OK;
}

void sweep_outcome_fini(sweep_outcome *outcome)
{
    line_fini(&outcome->line);
    memory_free(outcome->hashes);
    outcome->hashes = NULL;
}
