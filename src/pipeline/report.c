/* Makes report.json, which says what a run did, for people and for later commands. */
#include "base/parallel.h"
#include "pipeline/compression.h"
#include "pipeline/network/site_record.h"

#include <stdio.h>
#include <string.h>

static grail_status sizes_to_json(int64_t parameters, int64_t bytes, int64_t macs, int64_t kv_bytes,
                                  json_t *object)
{
    CHECK(json_put(object, "parameters", json_integer(parameters)));
    CHECK(json_put(object, "bytes", json_integer(bytes)));
    CHECK(json_put(object, "macs_per_token", json_integer(macs)));
    return json_put(object, "kv_bytes_per_token", json_integer(kv_bytes));
}

static grail_status totals_to_json(const grail_compression_totals *t, json_t *report)
{
    const grail_model_facts *d = &t->dense;
    json_t *dense = json_object();
    CHECK(json_put(report, "dense", dense));
    CHECK(json_put(dense, "architecture", json_text(d->architecture)));
    CHECK(json_put(dense, "dtype", json_text(d->dtype)));
    CHECK(sizes_to_json(d->parameters, d->bytes, d->macs_per_token, d->kv_bytes_per_token, dense));
    json_t *narrow = json_object();
    CHECK(json_put(report, "narrow", narrow));
    return sizes_to_json(t->parameters, t->bytes, t->macs_per_token, t->kv_bytes_per_token, narrow);
}

/* Nothing for a loader whose lines are not known. */
static grail_status lines_to_json(const char *lines, json_t *loader)
{
    char line[LOADER_LINES_SIZE];
    if (lines[0] == 0) {
        return GRAIL_OK;
    }
    json_t *list = json_array();
    CHECK(json_put(loader, "lines", list));
    for (const char *end = NULL; (end = strchr(lines, '\n')) != NULL; lines = end + 1) {
        snprintf(line, sizeof line, "%.*s", (int)(end - lines), lines);
        CHECK(json_push(list, json_text(line)));
    }
    return GRAIL_OK;
}

static grail_status loaders_to_json(const loader_verdict *verdicts, json_t *report)
{
    json_t *list = json_array();
    CHECK(json_put(report, "loaders", list));
    for (int i = 0; i < LOADER_COUNT; i++) {
        const loader_verdict *v = &verdicts[i];
        json_t *one = json_pack("{s:o, s:b, s:o}", "loader", json_text(v->loader), "loads",
                                v->loads ? 1 : 0, "reason", json_text(v->reason));
        CHECK(json_push(list, one));
        CHECK(lines_to_json(v->lines, one));
    }
    return GRAIL_OK;
}

static grail_status sites_to_json(const site_result *results, int count, json_t *report)
{
    json_t *list = json_array();
    CHECK(json_put(report, "sites", list));
    for (int i = 0; i < count; i++) {
        json_t *one = json_object();
        CHECK(json_push(list, one));
        CHECK(site_result_to_json(&results[i], one));
    }
    return GRAIL_OK;
}

/* How often the backend had an operation done on the host; nothing for one that has them all. */
static grail_status fallbacks_to_json(const backend *b, json_t *report)
{
    json_t *counts = NULL;
    for (int i = 0; i < operation_count(); i++) {
        const int64_t count = backend_fallbacks(b, i);
        if (count > 0 && counts == NULL) {
            counts = json_object();
            CHECK(json_put(report, "host_operations", counts));
        }
        if (count > 0) {
            CHECK(json_put(counts, operation_name(i), json_integer(count)));
        }
    }
    return GRAIL_OK;
}

int grail_compression_profile(const grail_compression *c, int i, grail_profile_part *out)
{
    /* the rest is the last one */
    const profile_kind kind = (profile_kind)(i + 1 < PROFILE_KINDS ? i + 1 : PROFILE_REST);
    if (c->profile == NULL || i < 0 || i >= PROFILE_KINDS) {
        return 0;
    }
    profile_read(c->profile);
    *out = (grail_profile_part){.name = profile_name(kind),
                                .seconds = c->profile->seconds[kind],
                                .operations = c->profile->operations[kind]};
    return 1;
}

/* Nothing where no profile is wanted. */
static grail_status profile_to_json(const grail_compression *c, json_t *report)
{
    grail_profile_part part;
    json_t *parts = NULL;
    for (int i = 0; grail_compression_profile(c, i, &part) != 0; i++) {
        if (parts == NULL) {
            parts = json_object();
            CHECK(json_put(report, "profile", parts));
        }
        CHECK(json_put(
            parts, part.name,
            json_pack("{s:f, s:f}", "seconds", part.seconds, "operations", part.operations)));
    }
    return GRAIL_OK;
}

static grail_status rounded_to_json(const compression_request *request, json_t *report)
{
    const rounded_types *r = &request->rounded;
    json_t *quantized = NULL;
    if (r->name == NULL) {
        return GRAIL_OK;
    }
    quantized = json_pack("{s:o, s:i}", "type", json_text(r->name), "matrices",
                          rounded_types_count(r, request->graph));
    CHECK(json_put(report, "quantized", quantized));
    if (request->narrowed.target != NULL) {
        CHECK(json_put(quantized, "shortfall", json_text(request->narrowed.target->shortfall)));
    }
    if (r->bits > 0) {
        CHECK(json_put(quantized, "bits", json_integer(r->bits)));
        CHECK(json_put(quantized, "group", json_integer(r->group)));
    }
    return GRAIL_OK;
}

/* What stays as it is, since other programs compute it. */
static grail_status regions_to_json(const grail_model *model, json_t *report)
{
    json_t *list = NULL;
    grail_region_facts r;
    for (int i = 0; (r = grail_model_region_at(model, i)).node != NULL; i++) {
        if (list == NULL) {
            list = json_array();
            CHECK(json_put(report, "regions", list));
        }
        json_t *one = json_object();
        CHECK(json_push(list, one));
        CHECK(json_put(one, "node", json_text(r.node)));
        CHECK(json_put(one, "reason", json_text(r.reason)));
        CHECK(json_put(one, "nodes", json_integer(r.nodes)));
        CHECK(json_put(one, "channels", json_integer(r.channels)));
    }
    return GRAIL_OK;
}

static grail_status build_report(const grail_compression *c, json_t *report)
{
    const compression_request *request = c->request;
    const calibration_network *network = c->network;
    const grail_compression_totals totals = grail_compression_totals_get(c);
    CHECK(json_put(report, "grail_report", json_integer(2)));
    CHECK(json_put(report, "model", json_text(request->model->path)));
    CHECK(totals_to_json(&totals, report));
    json_t *document = json_object();
    CHECK(json_put(report, "plan", document));
    CHECK(plan_to_json(&request->plan, &request->sites->list, document));
    CHECK(request->plan.budget == NULL
              ? GRAIL_OK
              : json_put(document, "budget", json_incref(request->plan.budget)));
    CHECK(json_put(report, "calibration", json_deep_copy(request->samples->description)));
    CHECK(json_put(report, "backend", json_text(backend_name(request->backend))));
    CHECK(json_put(report, "precision", json_text(backend_precision(request->backend))));
    CHECK(fallbacks_to_json(request->backend, report));
    CHECK(json_put(report, "threads", json_integer(parallel_threads())));
    CHECK(profile_to_json(c, report));
    CHECK(json_put(report, "kept_activations", json_boolean(network->passes.keep_activations)));
    CHECK(loaders_to_json(request->narrowed.verdicts, report));
    CHECK(regions_to_json(request->model, report));
    CHECK(sites_to_json(network->results, request->plan.count, report));
    json_t *non_finite =
        c->kept != NULL ? c->kept->tensors.non_finite : c->output->tensors.non_finite;
    if (json_array_size(non_finite) > 0) {
        CHECK(json_put(report, "non_finite", json_incref(non_finite)));
    }
    CHECK(rounded_to_json(request, report));
    if (network->refits.count > 0) {
        CHECK(refits_to_json(&network->refits, GRAPH_NONE, true, report));
    }
    if (request->teacher != NULL) {
        CHECK(json_put(report, "teacher", json_text(request->teacher->path)));
    }
    if (heals(&request->heal)) {
        json_t *heal = json_object();
        CHECK(json_put(report, "heal", heal));
        CHECK(heal_options_to_json(&request->heal, heal));
    }
    return healings_to_json(&network->healings, GRAPH_NONE, true, report);
}

grail_status run_report(const grail_compression *c, json_t **out)
{
    json_t *report = json_object();
    const grail_status status = build_report(c, report);
    if (status != GRAIL_OK) {
        json_decref(report);
        return status;
    }
    *out = report;
    return GRAIL_OK;
}

/* Once: what is measured of a sealed result must be of the report beside it. */
static grail_status seal(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    json_t *report = NULL;
    if (c->output == NULL) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "no output directory was given, so there is no result to write: it stays in memory");
    }
    if (c->report != NULL) {
        return GRAIL_OK;
    }
    TRY(run_report(c, &report));
    TRY(output_seal(c->output, report));
    c->report = json_incref(report);
out:
    json_decref(report);
    return status;
}

/* Says how a run is continued that failed while its result was completed. */
static grail_status complete(grail_compression *c, bool commits)
{
    profile *outer = profile_use(c->profile);
    const profile_kind before = profile_enter(PROFILE_FILES);
    grail_status status = seal(c);
    if (status == GRAIL_OK && commits) {
        status = output_commit(c->output, c->report, c->command, &c->sections);
    }
    profile_enter(before);
    profile_use(outer);
    if (status != GRAIL_OK && c->output != NULL) {
        output_after_failure(c->output, status);
    }
    return status;
}

grail_status grail_compression_seal(grail_compression *c, const char **directory)
{
    CHECK(run_check_result(c, "seal the result of"));
    CHECK(complete(c, false));
    *directory = output_place(c->output);
    return GRAIL_OK;
}

grail_status grail_compression_card_add(grail_compression *c, const char *title, const char *text)
{
    const grail_status status =
        c->state == RUN_COMMITTED ? run_check_result(c, "add to the model card of") : GRAIL_OK;
    return status != GRAIL_OK ? status : buffer_format(&c->sections, "## %s\n\n%s\n", title, text);
}

grail_status grail_compression_finish(grail_compression *c)
{
    CHECK(run_check_result(c, "finish"));
    CHECK(complete(c, true));
    c->state = RUN_COMMITTED;
    return GRAIL_OK;
}
