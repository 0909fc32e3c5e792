/* What happened at a site: the fits of its consumers, and its record in report.json and in the
 * state of a run. */
#include "pipeline/compression.h"

#include <math.h>
#include <string.h>

static const char *const fallback_names[] = {"none", "lambda raised", "eigenvalues", "kept plain"};
enum { FALLBACK_COUNT = sizeof fallback_names / sizeof fallback_names[0] };

/* The place of a fallback in the list of what had to be done; 0 of an unknown one. */
static int fallback_place(const char *name)
{
    for (int i = 0; name != NULL && i < FALLBACK_COUNT; i++) {
        if (strcmp(name, fallback_names[i]) == 0) {
            return i;
        }
    }
    return 0;
}

/* -- fits --------------------------------------------------------------------------------------
 */

/* The mean over `count` values when `value` is the last of them. */
static void average(double *mean, double value, int count)
{
    *mean = count == 1 ? value : (*mean * (count - 1) + value) / count;
}

static void include_in_mean(grail_fit *mean, const grail_fit *fit, int count)
{
    const int worst = fallback_place(mean->fallback);
    const int now = fallback_place(fit->fallback);
    average(&mean->alpha, fit->alpha, count);
    average(&mean->lambda, fit->lambda, count);
    average(&mean->condition, fit->condition, count);
    average(&mean->fit_before, fit->fit_before, count);
    average(&mean->fit_after, fit->fit_after, count);
    average(&mean->held_before, fit->held_before, count);
    average(&mean->held_after, fit->held_after, count);
    mean->fallback = fallback_names[now > worst ? now : worst];
    mean->bias = mean->bias != 0 || fit->bias != 0 ? 1 : 0;
}

static const char *consumer_name(const grail_compression *c, int index, int consumer)
{
    const graph *g = c->model->graph;
    const int reader = c->sites->list.sites[index].consumers[consumer].node;
    return g->parameters[g->nodes[reader].weight].name;
}

static grail_status add_fit(grail_compression *c, int index, const grail_fit *fit)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->results[index];
    grail_site_report *report = &result->report;
    TRY(memory_resize(&result->fits, (size_t)report->fit_count + 1, sizeof result->fits[0]));
    result->fits[report->fit_count] = *fit;
    report->fits = result->fits;
    report->fit_count++;
    include_in_mean(&report->fit, fit, report->fit_count);
out:
    return status;
}

grail_status site_result_add_fit(grail_compression *c, int index, int consumer,
                                 const ridge_result *r, bool bias)
{
    const grail_fit fit = {
        .consumer = consumer_name(c, index, consumer),
        .alpha = r->alpha,
        .lambda = r->lambda,
        .condition = r->condition,
        .fit_before = r->fit_before,
        .fit_after = r->fit_after,
        .held_before = r->held_before,
        .held_after = r->held_after,
        .fallback = fallback_names[r->fallback],
        .bias = bias ? 1 : 0,
    };
    return add_fit(c, index, &fit);
}

void site_result_fini(site_result *result)
{
    grail_reducer_free(result->reducer);
    memory_free(result->fits);
    *result = (site_result){0};
}

/* -- to JSON -----------------------------------------------------------------------------------
 */

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Kept units of a selection, cluster labels of a folding, and in what order the exchangeable blocks
 * of its units were merged. */
static grail_status reducer_to_json(const grail_reducer *r, json_t *object)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    TRY(json_put(object, r->folds ? "labels" : "kept_units", list));
    for (int64_t j = 0; j < r->units; j++) {
        if (r->folds) {
            TRY(json_push(list, json_integer(r->labels[j])));
        } else if (r->labels[j] >= 0) {
            TRY(json_push(list, json_integer(j)));
        }
    }
    if (r->order != NULL) {
        list = json_array();
        TRY(json_put(object, "subunit_order", list));
        for (int64_t i = 0; i < r->units * r->subunits; i++) {
            TRY(json_push(list, json_integer(r->order[i])));
        }
    }
out:
    return status;
}

static grail_status fit_to_json(const grail_fit *f, json_t *object)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "alpha", real_or_null(f->alpha)));
    TRY(json_put(object, "lambda", real_or_null(f->lambda)));
    TRY(json_put(object, "condition", real_or_null(f->condition)));
    TRY(json_put(object, "fallback", json_text(f->fallback)));
    TRY(json_put(object, "bias_fitted", json_boolean(f->bias)));
    TRY(json_put(object, "fit_error_before", real_or_null(f->fit_before)));
    TRY(json_put(object, "fit_error_after", real_or_null(f->fit_after)));
    TRY(json_put(object, "held_error_before", real_or_null(f->held_before)));
    TRY(json_put(object, "held_error_after", real_or_null(f->held_after)));
out:
    return status;
}

static grail_status fits_to_json(const grail_site_report *r, json_t *object)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    TRY(json_put(object, "consumers", list));
    for (int k = 0; k < r->fit_count; k++) {
        json_t *one = json_object();
        TRY(json_push(list, one));
        TRY(json_put(one, "consumer", json_text(r->fits[k].consumer)));
        TRY(fit_to_json(&r->fits[k], one));
    }
out:
    return status;
}

grail_status site_result_to_json(const grail_compression *c, int index, json_t **out)
{
    grail_status status = GRAIL_OK;
    const site_result *result = &c->results[index];
    const grail_site_report *r = &result->report;
    json_t *object = json_object();
    TRY(json_put(object, "site", json_text(r->name)));
    TRY(json_put(object, "kind", json_text(r->kind)));
    TRY(json_put(object, "block", json_integer(r->block)));
    TRY(json_put(object, "selector", json_text(r->selector)));
    TRY(json_put(object, "units", json_integer(r->units)));
    TRY(json_put(object, "kept", json_integer(r->kept)));
    TRY(json_put(object, "width", json_integer(r->width)));
    TRY(json_put(object, "narrow_width", json_integer(r->narrow)));
    TRY(fit_to_json(&r->fit, object));
    if (r->fit_count > 0) {
        TRY(fits_to_json(r, object));
    }
    TRY(json_put(object, "seconds", real_or_null(r->seconds)));
    TRY(json_put(object, "solve_seconds", real_or_null(r->solve_seconds)));
    if (result->reducer != NULL) {
        TRY(reducer_to_json(result->reducer, object));
    }
    *out = object;
    object = NULL;
out:
    json_decref(object);
    return status;
}

/* -- from JSON ---------------------------------------------------------------------------------
 */

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static grail_fit fit_from_json(const json_t *object)
{
    const char *fallback = json_string_value(json_object_get(object, "fallback"));
    return (grail_fit){
        .alpha = real_of(object, "alpha"),
        .lambda = real_of(object, "lambda"),
        .condition = real_of(object, "condition"),
        .fit_before = real_of(object, "fit_error_before"),
        .fit_after = real_of(object, "fit_error_after"),
        .held_before = real_of(object, "held_error_before"),
        .held_after = real_of(object, "held_error_after"),
        .fallback = fallback_names[fallback_place(fallback)],
        .bias = json_is_true(json_object_get(object, "bias_fitted")) ? 1 : 0,
    };
}

static grail_status restore_fits(grail_compression *c, int index, const json_t *list)
{
    grail_status status = GRAIL_OK;
    const site *s = &c->sites->list.sites[index];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(object, "consumer"));
        grail_fit fit = fit_from_json(object);
        for (int k = 0; name != NULL && k < s->consumer_count; k++) {
            if (strcmp(name, consumer_name(c, index, k)) == 0) {
                fit.consumer = consumer_name(c, index, k);
            }
        }
        if (fit.consumer == NULL) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "the state records a fit of '%s', which does not read site '%s'",
                 name == NULL ? "" : name, s->name);
        }
        TRY(add_fit(c, index, &fit));
    }
out:
    return status;
}

/* values[count] of an array in a record; *out is owned. */
static grail_status restore_integers(const json_t *list, int64_t count, int64_t **out)
{
    grail_status status = GRAIL_OK;
    int64_t *values = NULL;
    if (json_array_size(list) != (size_t)count) {
        FAIL(GRAIL_ERROR_FORMAT, "the state records %zu units, expected %lld",
             json_array_size(list), (long long)count);
    }
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    for (int64_t i = 0; i < count; i++) {
        values[i] = json_integer_value(json_array_get(list, (size_t)i));
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

static grail_status restore_order(const json_t *list, int64_t subunits, grail_reducer *reducer)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    TRY(restore_integers(list, reducer->units * subunits, &order));
    for (int64_t i = 0; i < reducer->units * subunits; i++) {
        if (order[i] < 0 || order[i] >= subunits) {
            FAIL(GRAIL_ERROR_FORMAT, "the state records block %lld of a unit of %lld",
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
    grail_reducer *reducer = NULL;
    const json_t *labels = json_object_get(object, "labels");
    const json_t *order = json_object_get(object, "subunit_order");
    if (labels != NULL) {
        TRY(restore_integers(labels, s->units, &values));
        TRY(grail_reducer_from_labels(s->units, kept, values, &reducer));
    } else {
        TRY(restore_integers(json_object_get(object, "kept_units"), kept, &values));
        TRY(grail_reducer_from_selection(s->units, kept, values, &reducer));
    }
    if (order != NULL) {
        TRY(restore_order(order, s->subunits, reducer));
    }
    *out = reducer;
    reducer = NULL;
out:
    grail_reducer_free(reducer);
    memory_free(values);
    return status;
}

grail_status site_result_restore(grail_compression *c, int index, const json_t *object)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->results[index];
    TRY(restore_reducer(object, &c->sites->list.sites[index], c->plan.sites[index].kept,
                        &result->reducer));
    TRY(restore_fits(c, index, json_object_get(object, "consumers")));
    result->report.fit = fit_from_json(object);
    result->report.seconds = real_of(object, "seconds");
    result->report.solve_seconds = real_of(object, "solve_seconds");
out:
    return status;
}
