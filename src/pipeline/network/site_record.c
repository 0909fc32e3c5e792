#include "pipeline/network/site_record.h"

#include <string.h>

/* -- fits ------------------------------------------------------------------------------------- */

static grail_status fit_to_json(const grail_fit *f, json_t *object)
{
    CHECK(json_put(object, "alpha", json_real_or_null(f->alpha)));
    CHECK(json_put(object, "lambda", json_real_or_null(f->lambda)));
    CHECK(json_put(object, "condition", json_real_or_null(f->condition)));
    CHECK(json_put(object, "fallback", json_text(f->fallback)));
    CHECK(json_put(object, "bias_fitted", json_boolean(f->bias)));
    CHECK(json_put(object, "fit_error_before", json_real_or_null(f->fit_before)));
    CHECK(json_put(object, "fit_error_after", json_real_or_null(f->fit_after)));
    CHECK(json_put(object, "held_error_before", json_real_or_null(f->held_before)));
    CHECK(json_put(object, "held_error_after", json_real_or_null(f->held_after)));
    return json_put(object, "dense_share", json_real_or_null(f->dense_share));
}

static grail_fit fit_from_json(const json_t *object)
{
    return (grail_fit){
        .alpha = json_real_or_nan(object, "alpha"),
        .lambda = json_real_or_nan(object, "lambda"),
        .condition = json_real_or_nan(object, "condition"),
        .fit_before = json_real_or_nan(object, "fit_error_before"),
        .fit_after = json_real_or_nan(object, "fit_error_after"),
        .held_before = json_real_or_nan(object, "held_error_before"),
        .held_after = json_real_or_nan(object, "held_error_after"),
        .dense_share = json_real_or_nan(object, "dense_share"),
        .fallback = site_fallback_name(json_string_value(json_object_get(object, "fallback"))),
        .bias = json_is_true(json_object_get(object, "bias_fitted")) ? 1 : 0,
    };
}

/* -- sites, to JSON ---------------------------------------------------------------------------- */

/* Writes the kept units of a selection, or the cluster labels of a folding with the order in which
 * the exchangeable blocks of its units were merged. */
static grail_status reducer_to_json(const grail_reducer *r, json_t *object)
{
    json_t *list = json_array();
    CHECK(json_put(object, r->folds ? "labels" : "kept_units", list));
    for (int64_t j = 0; j < r->units; j++) {
        if (r->folds) {
            CHECK(json_push(list, json_integer(r->labels[j])));
        } else if (r->labels[j] >= 0) {
            CHECK(json_push(list, json_integer(j)));
        }
    }
    if (r->order != NULL) {
        list = json_array();
        CHECK(json_put(object, "subunit_order", list));
        for (int64_t i = 0; i < r->units * r->subunits; i++) {
            CHECK(json_push(list, json_integer(r->order[i])));
        }
    }
    return GRAIL_OK;
}

static grail_status fits_to_json(const grail_site_report *r, json_t *object)
{
    json_t *list = json_array();
    CHECK(json_put(object, "consumers", list));
    for (int k = 0; k < r->fit_count; k++) {
        json_t *one = json_object();
        CHECK(json_push(list, one));
        CHECK(json_put(one, "consumer", json_text(r->fits[k].consumer)));
        CHECK(fit_to_json(&r->fits[k], one));
    }
    return GRAIL_OK;
}

static grail_status integers_to_json(const char *key, int count, const int64_t *values,
                                     json_t *object)
{
    json_t *list = json_array();
    CHECK(json_put(object, key, list));
    for (int i = 0; i < count; i++) {
        CHECK(json_push(list, json_integer(values[i])));
    }
    return GRAIL_OK;
}

/* Puts the experts that go, and those that no token reached where that was looked at. */
static grail_status experts_to_json(const grail_site_report *r, json_t *object)
{
    if (r->removed != NULL) {
        CHECK(integers_to_json("removed", r->removed_count, r->removed, object));
    }
    return r->unreached == NULL
               ? GRAIL_OK
               : integers_to_json("unreached", r->unreached_count, r->unreached, object);
}

grail_status site_result_to_json(const site_result *result, json_t *object)
{
    const grail_site_report *r = &result->report;
    CHECK(json_put(object, "site", json_text(r->name)));
    CHECK(json_put(object, "kind", json_text(r->kind)));
    CHECK(json_put(object, "block", json_integer(r->block)));
    CHECK(json_put(object, "selector", json_text(r->selector)));
    CHECK(json_put(object, "units", json_integer(r->units)));
    CHECK(json_put(object, "kept", json_integer(r->kept)));
    CHECK(json_put(object, "width", json_integer(r->width)));
    CHECK(json_put(object, "narrow_width", json_integer(r->narrow)));
    CHECK(json_put(object, "tied", json_boolean(r->tied != 0)));
    CHECK(fit_to_json(&r->fit, object));
    CHECK(experts_to_json(r, object));
    if (r->fit_count > 0) {
        CHECK(fits_to_json(r, object));
    }
    CHECK(json_put(object, "seconds", json_real_or_null(r->seconds)));
    CHECK(json_put(object, "solve_seconds", json_real_or_null(r->solve_seconds)));
    return result->reducer == NULL ? GRAIL_OK : reducer_to_json(result->reducer, object);
}

/* -- and from JSON ----------------------------------------------------------------------------- */

/* The site's own string for this consumer name; NULL when no consumer of the site has it. */
static const char *known_consumer(const graph *g, const site *s, const char *name)
{
    for (int k = 0; name != NULL && k < s->consumer_count; k++) {
        const char *own = site_consumer_name(g, s, k);
        if (strcmp(name, own) == 0) {
            return own;
        }
    }
    return NULL;
}

static grail_status restore_fits(const graph *g, const site *s, const json_t *list,
                                 site_result *result)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(object, "consumer"));
        grail_fit fit = fit_from_json(object);
        fit.consumer = known_consumer(g, s, name);
        if (fit.consumer == NULL) {
            return error_set(
                GRAIL_ERROR_FORMAT,
                "the recorded state holds a fit of '%s', which does not read site '%s'",
                name == NULL ? "" : name, s->name);
        }
        CHECK(site_result_add_fit(result, &fit));
    }
    return GRAIL_OK;
}

/* values[count] of an array in a record; *out is owned. */
static grail_status restore_integers(const json_t *list, int64_t count, int64_t **out)
{
    if (json_array_size(list) != (size_t)count) {
        return error_set(GRAIL_ERROR_FORMAT, "the recorded state holds %zu units, expected %lld",
                         json_array_size(list), (long long)count);
    }
    CHECK(memory_new(out, (size_t)count, sizeof **out));
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = json_integer_value(json_array_get(list, (size_t)i));
    }
    return GRAIL_OK;
}

static grail_status restore_order(const json_t *list, int64_t subunits, grail_reducer *reducer)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    TRY(restore_integers(list, reducer->units * subunits, &order));
    for (int64_t i = 0; i < reducer->units * subunits; i++) {
        if (order[i] < 0 || order[i] >= subunits) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "the recorded state names sub-block %lld of a unit that has %lld",
                 (long long)order[i], (long long)subunits);
        }
    }
    TRY(reducer_set_order(reducer, subunits, order));
out:
    memory_free(order);
    return status;
}

static grail_status restore_reducer(const json_t *object, const site *s, int64_t kept,
                                    grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    int64_t *values = NULL;
    const json_t *labels = json_object_get(object, "labels");
    const json_t *order = json_object_get(object, "subunit_order");
    if (labels != NULL) {
        TRY(restore_integers(labels, s->units, &values));
        TRY(grail_reducer_from_labels(s->units, kept, values, out));
    } else {
        TRY(restore_integers(json_object_get(object, "kept_units"), kept, &values));
        TRY(grail_reducer_from_selection(s->units, kept, values, out));
    }
    if (order != NULL) {
        TRY(restore_order(order, s->subunits, *out));
    }
out:
    memory_free(values);
    return status;
}

/* Experts that no token reached. */
static grail_status restore_unreached(const json_t *record, const site *s, site_result *result)
{
    const json_t *list = json_object_get(record, "unreached");
    const int64_t count = (int64_t)json_array_size(list);
    if (list == NULL) {
        return GRAIL_OK;
    }
    CHECK(restore_integers(list, count, &result->unreached));
    for (int64_t i = 0; i < count; i++) {
        if (result->unreached[i] < 0 || result->unreached[i] >= s->units) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "the recorded state names expert %lld of site '%s', which has %lld",
                             (long long)result->unreached[i], s->name, (long long)s->units);
        }
    }
    result->report.unreached = result->unreached;
    result->report.unreached_count = (int)count;
    return GRAIL_OK;
}

grail_status site_result_restore(const graph *g, const site *s, int64_t kept, const json_t *record,
                                 site_result *result)
{
    grail_reducer *reducer = NULL;
    const grail_status status = restore_reducer(record, s, kept, &reducer);
    if (status != GRAIL_OK) {
        grail_reducer_free(reducer);
        return status;
    }
    CHECK(site_result_decide(result, s->kind, reducer));
    CHECK(restore_unreached(record, s, result));
    CHECK(restore_fits(g, s, json_object_get(record, "consumers"), result));
    result->report.fit = fit_from_json(record);
    result->report.tied = json_is_true(json_object_get(record, "tied")) ? 1 : 0;
    result->report.seconds = json_real_or_nan(record, "seconds");
    result->report.solve_seconds = json_real_or_nan(record, "solve_seconds");
    return GRAIL_OK;
}

/* -- refits ------------------------------------------------------------------------------------ */

grail_status refits_to_json(const refit_list *list, int block, bool every, json_t *object)
{
    json_t *array = json_array();
    CHECK(json_put(object, "refits", array));
    for (int i = 0; i < list->count; i++) {
        const refit *made = &list->made[i];
        if (!every && made->block != block) {
            continue;
        }
        json_t *one = json_object();
        CHECK(json_push(array, one));
        CHECK(json_put(one, "map", json_text(made->fit.consumer)));
        CHECK(json_put(one, "block", json_integer(made->block)));
        CHECK(fit_to_json(&made->fit, one));
    }
    return GRAIL_OK;
}

/* The name of the weight of a map that is to be refitted; NULL when there is none of this name. */
static const char *known_map(const graph *g, const refit_list *list, const char *name)
{
    for (int i = 0; name != NULL && i < g->node_count; i++) {
        if (list->wanted[i] && strcmp(g->parameters[g->nodes[i].weight].name, name) == 0) {
            return g->parameters[g->nodes[i].weight].name;
        }
    }
    return NULL;
}

grail_status refits_restore(const graph *g, const json_t *record, refit_list *list)
{
    const json_t *array = json_object_get(record, "refits");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *one = json_array_get(array, i);
        const char *name = json_string_value(json_object_get(one, "map"));
        grail_fit fit = fit_from_json(one);
        fit.consumer = known_map(g, list, name);
        if (fit.consumer == NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "the recorded state holds a refit of '%s', which is not asked for",
                             name == NULL ? "" : name);
        }
        CHECK(refits_add(list, (int)json_integer_value(json_object_get(one, "block")), &fit));
    }
    return GRAIL_OK;
}
