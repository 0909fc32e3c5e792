#include "pipeline/network/site_result.h"

#include <math.h>
#include <string.h>

static const char *const fallback_names[] = {"none",      "lambda raised", "eigenvalues",
                                             "bias only", "kept plain",    SITE_NOT_REACHED};
enum { FALLBACK_COUNT = sizeof fallback_names / sizeof fallback_names[0] };

/* The place of a fallback in the order from best to worst; 0 for an unknown name. */
static int fallback_place(const char *name)
{
    for (int i = 0; name != NULL && i < FALLBACK_COUNT; i++) {
        if (strcmp(name, fallback_names[i]) == 0) {
            return i;
        }
    }
    return 0;
}

/* Updates the mean of count - 1 values to that of `count` values, of which `value` is the last. */
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
    average(&mean->dense_share, fit->dense_share, count);
    mean->fallback = fallback_names[now > worst ? now : worst];
    mean->bias = mean->bias != 0 || fit->bias != 0 ? 1 : 0;
}

const char *site_fallback_name(const char *name)
{
    return fallback_names[fallback_place(name)];
}

const char *site_consumer_name(const graph *g, const site *s, int consumer)
{
    return g->parameters[g->nodes[s->consumers[consumer].node].weight].name;
}

grail_fit site_fit_of(const char *consumer, const ridge_result *r, double dense_share, bool bias)
{
    return (grail_fit){
        .consumer = consumer,
        .alpha = r->alpha,
        .lambda = r->lambda,
        .condition = r->condition,
        .fit_before = r->fit_before,
        .fit_after = r->fit_after,
        .held_before = r->held_before,
        .held_after = r->held_after,
        .dense_share = dense_share,
        .fallback = fallback_names[r->fallback],
        .bias = bias ? 1 : 0,
    };
}

grail_status site_result_add_fit(site_result *result, const grail_fit *fit)
{
    grail_site_report *report = &result->report;
    CHECK(memory_reserve(&result->fits, (size_t)report->fit_count + 1, sizeof result->fits[0]));
    result->fits[report->fit_count] = *fit;
    report->fits = result->fits;
    report->fit_count++;
    include_in_mean(&report->fit, fit, report->fit_count);
    return GRAIL_OK;
}

grail_status site_result_decide(site_result *result, site_kind kind, grail_reducer *reducer)
{
    result->reducer = reducer;
    if (kind != SITE_EXPERTS) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&result->removed, (size_t)reducer->units, sizeof result->removed[0]));
    for (int64_t e = 0; e < reducer->units; e++) {
        if (reducer->labels[e] < 0) {
            result->removed[result->report.removed_count++] = e;
        }
    }
    result->report.removed = result->removed;
    return GRAIL_OK;
}

static grail_site_report planned_report(const grail_site_facts *facts, const plan_site *planned)
{
    const double nan = (double)NAN;
    return (grail_site_report){
        .name = facts->name,
        .kind = facts->kind,
        .selector = planned->selector->name,
        .block = facts->block,
        .units = planned->units,
        .kept = planned->kept,
        .width = facts->width,
        .narrow = planned->kept * facts->features_per_unit,
        .parameters_per_unit = facts->parameters_per_unit,
        .gone = planned->is_gone ? 1 : 0,
        .fit = {.alpha = nan,
                .lambda = nan,
                .condition = nan,
                .fit_before = nan,
                .fit_after = nan,
                .held_before = nan,
                .held_after = nan,
                .dense_share = nan,
                .fallback = fallback_names[0]},
    };
}

grail_status site_results_create(const grail_site_facts *facts, const plan *p, site_result **out)
{
    site_result *results = NULL;
    CHECK(memory_new(&results, (size_t)p->count, sizeof results[0]));
    for (int i = 0; i < p->count; i++) {
        results[i].report = planned_report(&facts[i], &p->sites[i]);
    }
    *out = results;
    return GRAIL_OK;
}

void site_results_free(site_result *results, int count)
{
    for (int i = 0; results != NULL && i < count; i++) {
        grail_reducer_free(results[i].reducer);
        memory_free(results[i].fits);
        memory_free(results[i].removed);
        memory_free(results[i].unreached);
    }
    memory_free(results);
}
