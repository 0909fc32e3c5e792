/* From a site's statistics to its narrow parameters. */
#include "pipeline/compression.h"

#include <math.h>
#include <string.h>

static const double alpha_candidates[] = {1e-5, 1e-4, 1e-3, 1e-2, 1e-1};

static const site *site_of(const grail_compression *c, int index)
{
    return &c->sites->list.sites[index];
}

static int consumer_bias(const grail_compression *c, int index)
{
    return c->model->graph->nodes[site_of(c, index)->consumers[0].node].bias;
}

static bool fits_bias(const grail_compression *c, int index)
{
    return c->plan.compensation.enabled && c->plan.compensation.bias != BIAS_OFF &&
           consumer_bias(c, index) != GRAPH_NONE;
}

/* Y <- Y - 1 b^T in the sums: a dense target contains the consumer's own bias, which stays.
 *   C <- C - b s^T,  q_o <- q_o - 2 b_o t_o + T b_o^2,  t <- t - T b */
static void remove_bias_from_target(grail_statistics *s, const float *bias)
{
    const double count = (double)s->count;
    for (int64_t o = 0; o < s->outputs; o++) {
        const double b = (double)bias[o];
        for (int64_t k = 0; k < s->width; k++) {
            s->cross[o * s->width + k] -= b * s->sum[k];
        }
        s->target_square[o] += b * (count * b - 2.0 * s->target_sum[o]);
        s->target_sum[o] -= count * b;
    }
}

static grail_status shift_targets(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    int64_t count = 0;
    const int parameter = consumer_bias(c, o->site);
    if (parameter == GRAPH_NONE || c->plan.compensation.target != TARGET_DENSE) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(c->current, parameter, &bias, &count));
    remove_bias_from_target(o->fit, bias);
    remove_bias_from_target(o->held, bias);
out:
    memory_free(bias);
    return status;
}

static grail_status select_from_statistics(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    const int64_t width = o->fit->width;
    TRY(memory_new(&diagonal, (size_t)width, sizeof diagonal[0]));
    for (int64_t j = 0; j < width; j++) {
        diagonal[j] = o->fit->gram[j * width + j] + o->held->gram[j * width + j];
    }
    TRY(site_select(c, o->site, diagonal, &c->results[o->site].reducer));
out:
    memory_free(diagonal);
    return status;
}

static grail_status make_regressions(grail_compression *c, observation *o, regression *fit,
                                     regression *held)
{
    grail_status status = GRAIL_OK;
    const site_end *end = &site_of(c, o->site)->consumers[0];
    const grail_reducer *reducer = c->results[o->site].reducer;
    const int64_t outputs = c->sites->facts[o->site].outputs;
    const float *consumer = NULL;
    float *owned = NULL;
    if (o->folds) {
        TRY(regression_from_measured(c->backend, o->fit, o->prior, fit));
        TRY(regression_from_measured(c->backend, o->held, o->prior, held));
        return GRAIL_OK;
    }
    TRY(parameter_store_borrow_f32(c->current, c->model->graph->nodes[end->node].weight, &consumer,
                                   &owned));
    TRY(regression_from_selection(c->backend, o->fit, reducer, end->features_per_unit, outputs,
                                  consumer, fit));
    TRY(regression_from_selection(c->backend, o->held, reducer, end->features_per_unit, outputs,
                                  consumer, held));
out:
    memory_free(owned);
    return status;
}

static void report_fit(grail_site_report *report, const ridge_result *result, bool bias)
{
    static const char *const fallbacks[] = {"none", "lambda raised", "eigenvalues", "kept plain"};
    report->alpha = result->alpha;
    report->lambda = result->lambda;
    report->condition = result->condition;
    report->fit_before = result->fit_before;
    report->fit_after = result->fit_after;
    report->held_before = result->held_before;
    report->held_after = result->held_after;
    report->fallback = fallbacks[result->fallback];
    report->bias = bias ? 1 : 0;
}

static ridge_options options_of(const grail_compression *c, int index)
{
    const compensation *how = &c->plan.compensation;
    const bool validate = isnan(how->alpha);
    return (ridge_options){
        .ridge = how->shrink == SHRINK_TO_PRIOR ? RIDGE_PRIOR : RIDGE_ZERO,
        .bias = fits_bias(c, index),
        .alpha = validate ? 1e-3 : how->alpha,
        .alphas = alpha_candidates,
        .alpha_count = validate ? (int)(sizeof alpha_candidates / sizeof alpha_candidates[0]) : 0,
    };
}

/* Solves and sets the consumer. The fit is f64; rounding to f32 and to the stored dtype follows. */
static grail_status fit_consumer(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    regression fit = {0};
    regression held = {0};
    double *weight = NULL;
    double *bias_change = NULL;
    ridge_result result = {0};
    const ridge_options options = options_of(c, o->site);
    TRY(shift_targets(c, o));
    TRY(make_regressions(c, o, &fit, &held));
    if (o->prior == NULL) {
        TRY(site_plain_consumer(c, o->site, c->results[o->site].reducer, &o->prior));
    }
    const size_t count = (size_t)(fit.outputs * fit.width);
    TRY(memory_new_unset(&weight, count, sizeof weight[0]));
    if (options.bias) {
        TRY(memory_new(&bias_change, (size_t)fit.outputs, sizeof bias_change[0]));
    }
    TRY(ridge_solve(c->backend, &fit, &held, o->prior, &options, weight, bias_change, &result));
    for (size_t i = 0; i < count; i++) {
        o->prior[i] = (float)weight[i]; /* the prior has served; its memory takes the fit */
    }
    TRY(site_set_consumer(c, o->site, o->prior, bias_change));
    report_fit(&c->results[o->site].report, &result, options.bias);
out:
    regression_fini(&fit);
    regression_fini(&held);
    memory_free(weight);
    memory_free(bias_change);
    return status;
}

static grail_status set_plain_consumer(grail_compression *c, int index)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    TRY(site_plain_consumer(c, index, c->results[index].reducer, &weight));
    TRY(site_set_consumer(c, index, weight, NULL));
out:
    memory_free(weight);
    return status;
}

/* The dense weights before the consumer have served; they are read again where a pass needs them.
 */
static void release_dense_before_consumer(grail_compression *c, int index)
{
    int begin = 0;
    int end = 0;
    graph_block_range(c->model->graph, site_of(c, index)->block, &begin, &end);
    parameter_store_release_range(c->dense, begin, site_of(c, index)->consumers[0].node);
}

grail_status compensate_site(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->results[o->site];
    TRY(statistics_check_finite(o->fit));
    TRY(statistics_check_finite(o->held));
    if (!o->folds) {
        TRY(select_from_statistics(c, o));
        TRY(site_narrow_producers(c, o->site, result->reducer, c->current));
        release_dense_before_consumer(c, o->site);
    } else {
        parameter_store_commit(c->current, o->trial);
    }
    if (c->plan.compensation.enabled) {
        TRY(fit_consumer(c, o));
    } else {
        TRY(set_plain_consumer(c, o->site));
    }
out:
    if (status != GRAIL_OK) {
        error_prefix("site '%s'", c->sites->facts[o->site].name);
    }
    return status;
}

grail_status narrow_site_plainly(grail_compression *c, int index)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->results[index];
    if (selector_folds(c->plan.sites[index].selector)) {
        TRY(site_fold(c, index, &result->reducer));
    } else {
        TRY(site_select(c, index, NULL, &result->reducer));
    }
    TRY(site_narrow_producers(c, index, result->reducer, c->current));
    TRY(set_plain_consumer(c, index));
out:
    if (status != GRAIL_OK) {
        error_prefix("site '%s'", c->sites->facts[index].name);
    }
    return status;
}
