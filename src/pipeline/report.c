/* Makes report.json, which says what a run did, for people and for later commands. */
#include "base/parallel.h"
#include "pipeline/compression.h"
#include "pipeline/network/fit_record.h"
#include "pipeline/network/site_record.h"

#include <stdio.h>
#include <string.h>

static grail_status totals_to_json(const grail_compression_totals *t, json_t *report)
{
    grail_status status = GRAIL_OK;
    json_t *dense = json_object();
    json_t *narrow = json_object();
    status = json_put(report, "dense", dense);
    if (status != GRAIL_OK) {
        json_decref(narrow);
        return status;
    }
    TRY(json_put(report, "narrow", narrow));
    TRY(json_put(dense, "architecture", json_text(t->dense.architecture)));
    TRY(json_put(dense, "dtype", json_text(t->dense.dtype)));
    TRY(json_put(dense, "parameters", json_integer(t->dense.parameters)));
    TRY(json_put(dense, "bytes", json_integer(t->dense.bytes)));
    TRY(json_put(dense, "macs_per_token", json_integer(t->dense.macs_per_token)));
    TRY(json_put(dense, "kv_bytes_per_token", json_integer(t->dense.kv_bytes_per_token)));
    TRY(json_put(narrow, "parameters", json_integer(t->parameters)));
    TRY(json_put(narrow, "bytes", json_integer(t->bytes)));
    TRY(json_put(narrow, "macs_per_token", json_integer(t->macs_per_token)));
    TRY(json_put(narrow, "kv_bytes_per_token", json_integer(t->kv_bytes_per_token)));
out:
    return status;
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
    json_t *one = NULL;
    json_t *list = json_array();
    CHECK(json_put(report, "sites", list));
    for (int i = 0; i < count; i++) {
        CHECK(site_result_to_json(&results[i], &one));
        CHECK(json_push(list, one));
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

static grail_status build_report(const grail_compression *c, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *plan_json = NULL;
    json_t *heal = NULL;
    json_t *report = json_object();
    const compression_request *request = c->request;
    const calibration_network *network = c->network;
    const grail_compression_totals totals = grail_compression_totals_get(c);
    TRY(json_put(report, "grail_report", json_integer(2)));
    TRY(json_put(report, "model", json_text(request->model->path)));
    TRY(totals_to_json(&totals, report));
    TRY(plan_to_json(&request->plan, &request->sites->list, &plan_json));
    TRY(json_put(report, "plan", plan_json));
    TRY(json_put(report, "calibration", json_deep_copy(request->samples->description)));
    TRY(json_put(report, "backend", json_text(backend_name(request->backend))));
    TRY(json_put(report, "precision", json_text(backend_precision(request->backend))));
    TRY(fallbacks_to_json(request->backend, report));
    TRY(json_put(report, "threads", json_integer(parallel_threads())));
    TRY(json_put(report, "kept_activations", json_boolean(network->keep_activations)));
    TRY(loaders_to_json(request->narrowed.verdicts, report));
    TRY(sites_to_json(network->results, request->plan.count, report));
    if (json_array_size(c->output->non_finite) > 0) {
        TRY(json_put(report, "non_finite", json_incref(c->output->non_finite)));
    }
    if (network->refits.count > 0) {
        TRY(refits_to_json(&network->refits, GRAPH_NONE, true, report));
    }
    if (request->teacher != NULL) {
        TRY(json_put(report, "teacher", json_text(request->teacher->path)));
    }
    if (heals(&request->heal)) {
        TRY(heal_options_to_json(&request->heal, &heal));
        TRY(json_put(report, "heal", heal));
    }
    TRY(healings_to_json(&network->healings, GRAPH_NONE, true, report));
    *out = report;
    report = NULL;
out:
    json_decref(report);
    return status;
}

/* Once: what is measured of a sealed result must be of the report beside it. */
static grail_status seal(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    json_t *report = NULL;
    if (c->output == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "no output directory was given, so there is no result to write: it stays in memory");
    }
    if (c->report == NULL) {
        TRY(build_report(c, &report));
        TRY(output_seal(c->output, report));
        c->report = report;
        report = NULL;
    }
out:
    json_decref(report);
    return status;
}

/* Says how a run is continued that failed while its result was completed. */
static grail_status completed(grail_compression *c, grail_status status)
{
    if (status != GRAIL_OK && c->output != NULL) {
        output_after_failure(c->output, status);
    }
    return status;
}

grail_status grail_compression_seal(grail_compression *c, const char **directory)
{
    grail_status status = run_check_result(c, "seal the result of");
    if (status != GRAIL_OK) {
        return status;
    }
    status = seal(c);
    if (status == GRAIL_OK) {
        *directory = output_place(c->output);
    }
    return completed(c, status);
}

grail_status grail_compression_card_add(grail_compression *c, const char *title, const char *text)
{
    const grail_status status =
        c->state == RUN_COMMITTED ? run_check_result(c, "add to the model card of") : GRAIL_OK;
    return status != GRAIL_OK ? status : buffer_format(&c->sections, "## %s\n\n%s\n", title, text);
}

grail_status grail_compression_finish(grail_compression *c)
{
    grail_status status = run_check_result(c, "finish");
    if (status != GRAIL_OK) {
        return status;
    }
    status = seal(c);
    if (status == GRAIL_OK) {
        status = output_commit(c->output, c->report, c->command, &c->sections);
    }
    if (status == GRAIL_OK) {
        c->state = RUN_COMMITTED;
    }
    return completed(c, status);
}
