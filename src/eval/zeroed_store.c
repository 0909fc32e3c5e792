#include "eval/zeroed_store.h"

#include "format/weights/beside.h"
#include "graph/operators.h"
#include "graph/site.h"

#include <string.h>

enum { REPORT_MAXIMUM = 256 << 20 };

/* Zeroes the columns of the removed units of one consumer; a column of a convolution has a value
 * for every tap. */
static grail_status zero_columns(parameter_store *store, const site *s, const site_end *end,
                                 const bool *kept)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    int64_t elements = 0;
    const graph *g = store->model->graph;
    const int index = g->nodes[end->node].weight;
    const graph_parameter *p = &g->parameters[index];
    const int64_t taps = weight_taps(p);
    const int64_t groups = node_groups(&g->nodes[end->node]);
    TRY(parameter_store_read_f32(store, index, &weight, &elements));
    for (int64_t i = 0; i < elements; i++) {
        const int64_t group = i * groups / elements;
        const int64_t column = group * p->shape[1] + i / taps % p->shape[1] - end->first;
        const bool own = column >= 0 && column < s->units * end->features_per_unit;
        weight[i] *= !own || kept[column / end->features_per_unit] ? 1.0F : 0.0F;
    }
    TRY(parameter_store_set(store, index, p->shape, weight));
out:
    memory_free(weight);
    return status;
}

static grail_status zero_site(parameter_store *store, const site_list *sites, const char *source,
                              const json_t *entry)
{
    grail_status status = GRAIL_OK;
    bool *kept = NULL;
    const char *name = json_string_value(json_object_get(entry, "site"));
    const int index = name == NULL ? -1 : site_list_find(sites, name);
    const json_t *list = json_object_get(entry, "kept_units");
    const json_t *count = json_object_get(entry, "kept");
    const bool is_dropped = json_is_integer(count) && json_integer_value(count) == 0;
    if (list == NULL && !is_dropped) {
        return GRAIL_OK; /* an uncut site */
    }
    if (index < 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: '%s' is not a site of the dense model; give the model that this one was narrowed "
             "from",
             source, name == NULL ? "(unnamed)" : name);
    }
    const site *s = &sites->sites[index];
    TRY(memory_new(&kept, (size_t)s->units, sizeof kept[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t unit = json_integer_value(json_array_get(list, i));
        if (unit < 0 || unit >= s->units) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s: site '%s' keeps unit %lld, but the dense model has %lld units; give the "
                 "model that this one was narrowed from",
                 source, name, (long long)unit, (long long)s->units);
        }
        kept[unit] = true;
    }
    for (int k = 0; k < s->consumer_count; k++) {
        TRY(zero_columns(store, s, &s->consumers[k], kept));
        if (is_dropped) { /* a dropped sublayer gives nothing, not even a bias */
            const int reader = s->consumers[k].node;
            TRY(parameter_store_set_zero(store, store->model->graph->nodes[reader].bias));
        }
    }
out:
    memory_free(kept);
    return status;
}

static bool was_repaired(const json_t *report)
{
    const json_t *plan = json_object_get(report, "plan");
    const json_t *enabled = json_object_get(json_object_get(plan, "compensation"), "enabled");
    return !json_is_false(enabled) || json_is_true(json_object_get(plan, "repair"));
}

/* Not where units were folded, or experts went: no columns read what they made. */
static bool was_pruned(const json_t *report)
{
    const json_t *sites = json_object_get(report, "sites");
    bool pruned = json_is_array(sites);
    for (size_t i = 0; i < json_array_size(sites); i++) {
        const json_t *entry = json_array_get(sites, i);
        pruned = pruned && json_object_get(entry, "labels") == NULL &&
                 json_object_get(entry, "removed") == NULL;
    }
    return pruned;
}

static gqa_mode report_gqa(const json_t *report)
{
    const char *text = json_string_value(json_object_get(json_object_get(report, "plan"), "gqa"));
    return text != NULL && strcmp(text, "query-per-group") == 0 ? GQA_QUERY_PER_GROUP
                                                                : GQA_KV_GROUPS;
}

/* Whether units of a site that a norm runs over went, and others stayed. */
static bool cuts_norm(const site_list *sites, const json_t *entries)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        const char *name = json_string_value(json_object_get(entry, "site"));
        const int index = name == NULL ? -1 : site_list_find(sites, name);
        const bool was_cut = json_object_get(entry, "kept_units") != NULL ||
                             json_object_get(entry, "labels") != NULL;
        found = found || (was_cut && index >= 0 && sites->sites[index].normed);
    }
    return found;
}

grail_status zeroed_store_create(parameter_store *dense, const grail_model *narrow, bool equal,
                                 bool *norm_is_cut, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *report = NULL;
    site_list sites = {0};
    TRY(beside_read_json(narrow->checkpoint, "report.json", REPORT_MAXIMUM, &path, &report));
    TRY(sites_derive(dense->model->graph, report_gqa(report), &sites));
    const json_t *entries = json_object_get(report, "sites");
    *norm_is_cut = cuts_norm(&sites, entries);
    if (was_pruned(report) && !*norm_is_cut && !(equal && was_repaired(report))) {
        TRY(parameter_store_create(dense->model, dense->backend, dense, out));
        for (size_t i = 0; i < json_array_size(entries); i++) {
            TRY(zero_site(*out, &sites, path, json_array_get(entries, i)));
        }
    }
out:
    site_list_fini(&sites);
    json_decref(report);
    memory_free(path);
    return status;
}

grail_status zeroed_store_of_cut(parameter_store *dense, const grail_model *narrow,
                                 parameter_store **out)
{
    bool norm_is_cut = false;
    CHECK(zeroed_store_create(dense, narrow, false, &norm_is_cut, out));
    if (norm_is_cut) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: what the cut alone does cannot be measured; a norm runs over a width "
            "that was cut, so zeros in the dense network do not stand for what is left of it",
            narrow->path);
    }
    if (*out == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: what the cut alone does cannot be measured: there is no report.json that lists "
            "kept units, or units were folded into others, or experts dropped",
            narrow->path);
    }
    return GRAIL_OK;
}
