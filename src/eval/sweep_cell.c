#include "eval/sweep_cell.h"

#include "arch/model_images.h"
#include "base/clock.h"
#include "eval/accuracy.h"
#include "pipeline/compression.h"

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
    site_list sites = {0};
    bool found = false;
    TRY(sites_derive(model->graph, GQA_KV_GROUPS, &sites));
    for (int i = 0; i < sites.count; i++) {
        found = found || recipe->cuts[sites.sites[i].kind];
    }
    if (!found) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the network has no site of the kinds that the recipe cuts");
    }
out:
    site_list_fini(&sites);
    return status;
}

static grail_status open_images(const grail_model *model, const sweep_images *images,
                                image_set **out)
{
    grail_status status = GRAIL_OK;
    grail_image_source source = images->source;
    TRY(model_image_source(model, &source));
    TRY(image_set_open(&source, out));
    if (images->images > image_set_count(*out)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "%lld images were asked for, '%s' holds %lld",
             (long long)images->images, images->path, (long long)image_set_count(*out));
    }
out:
    return status;
}

grail_status sweep_checkpoint_open(const sweep_recipe *recipe, int index,
                                   sweep_checkpoint_data *out)
{
    grail_status status = GRAIL_OK;
    const sweep_checkpoint *named = &recipe->checkpoints[index];
    const grail_model_options reading = sweep_reading(named);
    sweep_checkpoint_data data = {0};
    image_set *samples = NULL;
    TRY(grail_model_open_with(named->path, &reading, &data.model));
    TRY(accuracy_check_model(data.model));
    TRY(check_kinds(recipe, data.model));
    TRY(open_images(data.model, &recipe->evaluation, &data.evaluation));
    TRY(open_images(data.model, &recipe->calibration, &samples));
    data.calibration_images = image_set_count(samples);
    *out = data;
    data = (sweep_checkpoint_data){0};
out:
    image_set_close(samples);
    sweep_checkpoint_close(&data);
    return status;
}

void sweep_checkpoint_close(sweep_checkpoint_data *data)
{
    image_set_close(data->evaluation);
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

static int watch_images(void *user, int64_t done, int64_t total, double top1)
{
    (void)done;
    (void)total;
    (void)top1;
    const sweep_context *context = user;
    return context->should_stop(context->user);
}

static grail_compress_options options_of(sweep_context *context, const sweep_cell *cell,
                                         grail_session *session)
{
    const sweep_recipe *recipe = context->recipe;
    const double ratio = cell->sparsity;
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.session = session;
    o.images = &recipe->calibration.source;
    o.samples = cell->samples;
    o.seed = (uint64_t)cell->seed;
    o.selector = selector_name(cell->selector);
    o.sparsity_ffn = recipe->cuts[SITE_FFN] ? ratio : 0.0;
    o.sparsity_heads = recipe->cuts[SITE_HEADS] ? ratio : 0.0;
    o.sparsity_conv = recipe->cuts[SITE_CONV] ? ratio : 0.0;
    o.sparsity_stream = recipe->cuts[SITE_STREAM] ? ratio : 0.0;
    o.align = recipe->align;
    o.compensate = sweep_variant_compensation(cell->variant);
    o.repair = sweep_variant_repairs(cell->variant) ? 1 : 0;
    o.open_loop = cell->open_loop ? 1 : 0;
    o.stream_score = recipe->stream_score;
    o.memory = context->memory;
    o.observer = watch_sites;
    o.observer_user = context;
    return o;
}

/* 6 digits are more than a second's or an error's accuracy. */
static json_t *measured(double value)
{
    char text[40];
    if (!isfinite(value)) {
        return json_null();
    }
    snprintf(text, sizeof text, "%.6g", value);
    return json_real(strtod(text, NULL));
}

static grail_status sites_to_json(const grail_compression *c, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        TRY(json_push(list,
                      json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "name",
                                json_text(s.name), "kind", json_text(s.kind), "units",
                                (json_int_t)s.units, "kept", (json_int_t)s.kept, "fit_before",
                                measured(s.fit.fit_before), "fit_after", measured(s.fit.fit_after),
                                "held_before", measured(s.fit.held_before), "held_after",
                                measured(s.fit.held_after))));
    }
    *out = list;
    list = NULL;
out:
    json_decref(list);
    return status;
}

static grail_status evaluate(sweep_context *context, grail_compression *c, grail_accuracy *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *narrow = NULL;
    TRY(narrow_store(c, &narrow));
    TRY(accuracy_measure(c->model, narrow, c->backend, context->evaluation,
                         context->recipe->evaluation.images, 0, watch_images, context, out));
out:
    parameter_store_free(narrow);
    return status;
}

static grail_status run(sweep_context *context, grail_session *session, sweep_outcome *outcome)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    const grail_compress_options options = options_of(context, outcome->cell, session);
    TRY(grail_compression_open(&options, &c));
    TRY(grail_compression_run(c));
    TRY(evaluate(context, c, &outcome->accuracy));
    TRY(sites_to_json(c, &outcome->sites));
    outcome->totals = grail_compression_totals_get(c);
out:
    grail_compression_close(c);
    return status;
}

void sweep_cell_run(sweep_context *context, grail_session *session, sweep_outcome *outcome)
{
    const double begin = clock_seconds();
    outcome->status = run(context, session, outcome);
    outcome->error[0] = 0;
    if (outcome->status != GRAIL_OK) {
        error_copy(outcome->error, sizeof outcome->error);
    }
    outcome->seconds = clock_seconds() - begin;
    outcome->peak_bytes = memory_peak();
}

void sweep_outcome_fini(sweep_outcome *outcome)
{
    json_decref(outcome->sites);
    outcome->sites = NULL;
}

/* -- lines --------------------------------------------------------------------------------------
 */

static grail_status put_accuracy(json_t *object, const grail_accuracy *a)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "top1", json_real(a->top1)));
    TRY(json_put(object, "top5", isnan(a->top5) ? json_null() : json_real(a->top5)));
    TRY(json_put(object, "interval", measured(a->interval)));
    TRY(json_put(object, "images", json_integer(a->images)));
out:
    return status;
}

grail_status sweep_dense_to_json(const sweep_recipe *recipe, int index,
                                 const sweep_checkpoint_data *data, grail_eval_observer observer,
                                 void *user, json_t **out)
{
    grail_status status = GRAIL_OK;
    parameter_store *store = NULL;
    grail_model_facts facts = {0};
    grail_accuracy accuracy = {0};
    json_t *line = json_object();
    json_t *dense = json_object();
    TRY(json_put(line, "dense", dense));
    TRY(grail_model_describe(data->model, &facts));
    TRY(parameter_store_create(data->model, &backend_cpu, NULL, &store));
    TRY(accuracy_measure(data->model, store, &backend_cpu, data->evaluation,
                         recipe->evaluation.images, 0, observer, user, &accuracy));
    TRY(json_put(dense, "checkpoint", json_text(recipe->checkpoints[index].name)));
    TRY(json_put(dense, "path", json_text(recipe->checkpoints[index].path)));
    TRY(json_put(dense, "architecture", json_text(facts.architecture)));
    TRY(json_put(dense, "parameters", json_integer(facts.parameters)));
    TRY(json_put(dense, "macs", json_integer(facts.macs_per_token)));
    TRY(put_accuracy(dense, &accuracy));
    *out = line;
    line = NULL;
out:
    parameter_store_free(store);
    json_decref(line);
    return status;
}

grail_status sweep_outcome_to_json(const sweep_recipe *recipe, const sweep_outcome *outcome,
                                   json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *cell = NULL;
    const grail_compression_totals *t = &outcome->totals;
    json_t *line = json_object();
    TRY(sweep_cell_to_json(recipe, outcome->cell, &cell));
    TRY(json_put(line, "cell", cell));
    if (outcome->error[0] != 0) {
        TRY(json_put(line, "error", json_text(outcome->error)));
    } else {
        TRY(put_accuracy(line, &outcome->accuracy));
        TRY(json_put(line, "parameters", json_integer(t->parameters)));
        TRY(json_put(line, "macs", json_integer(t->macs_per_token)));
        TRY(json_put(line, "seconds",
                     json_pack("{s:o, s:o, s:o, s:o}", "calibrate", measured(t->calibrate_seconds),
                               "compensate", measured(t->compensate_seconds), "evaluate",
                               measured(outcome->accuracy.seconds), "total",
                               measured(outcome->seconds))));
        TRY(json_put(line, "peak_bytes", json_integer(outcome->peak_bytes)));
        TRY(json_put(line, "sites", json_incref(outcome->sites)));
    }
    *out = line;
    line = NULL;
out:
    json_decref(line);
    return status;
}
