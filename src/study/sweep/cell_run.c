#include "study/sweep/cell_run.h"

#include "base/clock.h"

#include <grail/machine.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

grail_model_options sweep_reading(const sweep_checkpoint *c)
{
    return (grail_model_options){.settings = (const char *const *)c->settings,
                                 .setting_count = c->setting_count};
}

/* -- checkpoints --------------------------------------------------------------------------------
 */

/* A ratio that cuts nothing would make every cell the dense network. */
static grail_status check_kinds(const sweep_recipe *recipe, const grail_model *model)
{
    grail_status status = GRAIL_OK;
    grail_site_list *sites = NULL;
    bool found = false;
    TRY(grail_model_sites(model, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < grail_site_list_count(sites); i++) {
        found = found || sweep_recipe_cuts(recipe, grail_site_list_at(sites, i).kind);
    }
    if (!found) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the network has none of the kinds of sites that the recipe cuts");
    }
out:
    grail_site_list_free(sites);
    return status;
}

static grail_status check_outputs(const grail_model *model)
{
    grail_model_facts facts = {0};
    CHECK(grail_model_describe(model, &facts));
    if (facts.reads_images == 0) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "'%s' reads text, not images; a sweep measures the accuracy of networks that read "
            "images",
            facts.directory);
    }
    if (facts.classes < 2) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "'%s' gives features, not classes; a sweep measures accuracy, which needs a "
            "checkpoint with a classification head",
            facts.directory);
    }
    return GRAIL_OK;
}

static grail_status open_images(const grail_model *model, const sweep_images *images,
                                grail_images **out)
{
    CHECK(grail_images_open(model, &images->source, out));
    if (images->images > grail_images_count(*out)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%lld images were requested, but '%s' holds %lld",
                         (long long)images->images, images->path,
                         (long long)grail_images_count(*out));
    }
    return GRAIL_OK;
}

grail_status sweep_checkpoint_open(const sweep_recipe *recipe, int index,
                                   sweep_checkpoint_data *out)
{
    grail_status status = GRAIL_OK;
    const sweep_checkpoint *named = &recipe->checkpoints.list[index];
    const grail_model_options reading = sweep_reading(named);
    sweep_checkpoint_data data = {0};
    grail_images *samples = NULL;
    TRY(grail_model_open_with(named->path, &reading, &data.model));
    TRY(check_outputs(data.model));
    TRY(check_kinds(recipe, data.model));
    TRY(open_images(data.model, &recipe->evaluation, &data.evaluation));
    TRY(open_images(data.model, &recipe->calibration, &samples));
    data.calibration_images = grail_images_count(samples);
    *out = data;
    data = (sweep_checkpoint_data){0};
out:
    grail_images_close(samples);
    sweep_checkpoint_close(&data);
    return status;
}

void sweep_checkpoint_close(sweep_checkpoint_data *data)
{
    grail_images_close(data->evaluation);
    grail_model_close(data->model);
    *data = (sweep_checkpoint_data){0};
}

/* -- running ------------------------------------------------------------------------------------
 */

static int watch_sites(void *user, const grail_site_report *report, int block, int blocks,
                       double seconds)
{
    (void)report;
    (void)block;
    (void)blocks;
    (void)seconds;
    const sweep_context *context = user;
    return context->should_stop(context->user);
}

static int watch_healing(void *user, const grail_healing *now)
{
    (void)now;
    const sweep_context *context = user;
    return context->should_stop(context->user);
}

static int watch_images(void *user, const grail_eval_progress *progress)
{
    (void)progress;
    const sweep_context *context = user;
    return context->should_stop(context->user);
}

/* The options of a cell; strings are borrowed from the recipe. */
static grail_compress_options options_of(const sweep_recipe *recipe, const line_settings *s)
{
    grail_compress_options o = recipe->run;
    o.read.images = &recipe->calibration.source;
    o.read.samples = s->samples;
    o.read.seed = (uint64_t)s->seed;
    o.cut.selector = s->selector;
    for (int i = 0; i < recipe->kind_count; i++) {
        *grail_compress_sparsity(&o, recipe->kinds[i]) = s->sparsity;
    }
    o.fit.compensate = variant_compensation(s->variant);
    o.fit.repair = variant_repairs(s->variant) ? 1 : 0;
    o.fit.open_loop = s->open_loop ? 1 : 0;
    o.heal.what = heal_kind_name(variant_heal(s->variant));
    return o;
}

grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out)
{
    const grail_compress_options options = options_of(recipe, &cell->settings);
    return grail_compress_estimate(model, &options, out);
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

static void copy_accuracy(const grail_accuracy *a, line_measures *out)
{
    out->top1 = a->top1;
    out->top5 = a->top5;
    out->interval = a->interval;
    out->images = (double)a->images;
    out->seconds[SECONDS_EVALUATE] = a->seconds;
}

static grail_status run(sweep_context *context, grail_session *session, sweep_outcome *outcome)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    grail_accuracy accuracy = {0};
    line_measures *m = &outcome->line.measures;
    grail_compress_options options = options_of(context->recipe, &outcome->cell->settings);
    options.read.session = session;
    options.run.memory = context->memory;
    options.run.observer = watch_sites;
    options.run.heal_observer = watch_healing;
    options.run.observer_user = context;
    TRY(grail_compression_open(&options, &c));
    TRY(grail_compression_run(c));
    TRY(grail_compression_accuracy(c, context->evaluation, context->recipe->evaluation.images,
                                   watch_images, context, &accuracy));
    TRY(copy_sites(c, outcome));
    TRY(copy_healings(c, outcome));
    const grail_compression_totals totals = grail_compression_totals_get(c);
    copy_accuracy(&accuracy, m);
    m->parameters = (double)totals.parameters;
    m->macs = (double)totals.macs_per_token;
    m->seconds[SECONDS_CALIBRATE] = totals.calibrate_seconds;
    m->seconds[SECONDS_COMPENSATE] = totals.compensate_seconds;
out:
    grail_compression_close(c);
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

grail_status sweep_dense_measure(const sweep_recipe *recipe, int index,
                                 const sweep_checkpoint_data *data, grail_eval_observer observer,
                                 void *user, result_line *out)
{
    grail_model_facts facts = {0};
    grail_accuracy accuracy = {0};
    const grail_compute compute = {.precision = recipe->run.run.precision};
    const sweep_checkpoint *named = &recipe->checkpoints.list[index];
    result_line line = {.kind = LINE_DENSE,
                        .settings = {.checkpoint = named->name},
                        .path = named->path,
                        .measures = line_not_measured()};
    CHECK(grail_model_describe(data->model, &facts));
    CHECK(grail_accuracy_measure(data->model, data->evaluation, recipe->evaluation.images, &compute,
                                 observer, user, &accuracy));
    line.architecture = facts.architecture;
    line.measures.parameters = (double)facts.parameters;
    line.measures.macs = (double)facts.macs_per_token;
    copy_accuracy(&accuracy, &line.measures);
    *out = line;
    return GRAIL_OK;
}
