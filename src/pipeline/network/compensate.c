#include "pipeline/network/compensate.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/profile.h"
#include "pipeline/request/consumer_tail.h"
#include "stats/constant_features.h"

#include <string.h>

/* -- fits -------------------------------------------------------------------------------------- */

/* A fit, computed in f64. */
typedef struct fitted_map {
    matrix weight;       /* owned, in the shape of the prior; rounded to f32 */
    double *bias_change; /* owned; NULL without a bias */
    ridge_result result;
    bool bias;
} fitted_map;

static void fitted_map_fini(fitted_map *m)
{
    matrix_free(&m->weight);
    memory_free(m->bias_change);
    *m = (fitted_map){0};
}

/* W0 where the sums are: of a map that was not cut a view of W, of a selection on a device its
 * columns of W, else `prior`. Owned, even after a failure. */
static grail_status place_prior(const observation *o, const grail_reducer *map, int64_t u,
                                const float *prior, matrix *out)
{
    grail_status status = GRAIL_OK;
    backend *b = o->fit->owner;
    int64_t *columns = NULL;
    const int64_t rows = o->layout.rows * o->layout.tap_rows;
    const int64_t kept = map == NULL ? o->fit->width : map->kept * u;
    if (map == NULL && matrix_exists(o->weight_rows)) {
        *out = matrix_rows(o->weight_rows, 0, rows);
        return GRAIL_OK;
    }
    if (map == NULL || map->folds || backend_is_host(b)) {
        return matrix_import(b, GRAIL_DTYPE_F32, rows, kept, kept, prior, out);
    }
    TRY(memory_new_unset(&columns, (size_t)kept, sizeof columns[0]));
    reducer_kept_features(map, u, columns);
    TRY(matrix_new(b, GRAIL_DTYPE_F32, rows, kept, out));
    TRY(matrix_gather(NULL, columns, o->weight_rows, *out));
out:
    memory_free(columns);
    return status;
}

/* The regressions of both parts, and W0 where they are; all owned, even after a failure. */
static grail_status make_regressions(const grail_comm *comm, observation *o,
                                     const grail_reducer *reducer, const float *prior,
                                     matrix *prior_rows, regression *fit, regression *held)
{
    const bool of_kept = o->target == OBSERVES_REMAINDER;
    const grail_reducer *map =
        o->remade || of_kept ? NULL : reducer; /* the sums are of Z already */
    const int64_t u = map == NULL ? 1 : o->layout.features / map->units * o->layout.taps;
    CHECK(place_prior(o, map, u, prior, prior_rows));
    if (of_kept) {
        CHECK(regression_of_residual(o->fit, *prior_rows, fit));
        return regression_of_residual(o->held, *prior_rows, held);
    }
    CHECK(regression_derive(comm, o->fit, map, u, o->weight_rows, *prior_rows, fit));
    return regression_derive(comm, o->held, map, u, o->weight_rows, *prior_rows, held);
}

static ridge_options options_of(const cutting *cut, const grail_comm *comm, int consumer)
{
    const compensation *how = &cut->plan->compensation;
    const bool validate = how->alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED;
    return (ridge_options){
        .ridge = how->ridge,
        .scale = how->ridge_scale,
        .bias = consumer_fits_bias(cut->graph, how, consumer),
        .keeps_weights = how->fit == FIT_BIAS_ONLY,
        .of_all = how->ridge_of == RIDGE_OF_ALL,
        .alpha = validate ? 1e-3 : how->alpha.value,
        .alphas = ridge_alphas,
        .comm = comm,
        .alpha_count = validate ? RIDGE_ALPHAS : 0,
    };
}

/* judged[rows * tap_rows]: whether the narrowed network has this output. The outputs of units that
 * are removed, or replaced by merged ones, are computed only to keep the calibration network's
 * shape. *out is owned; NULL when the consumer's rows are not cut, or when it is not yet decided
 * which. */
static grail_status find_judged(const cutting *cut, const site_result *results,
                                const observation *o, bool **out)
{
    const int64_t taps = o->layout.tap_rows;
    const cut_axis *rows = &cut->axes[cut->graph->nodes[o->node].weight].rows;
    for (const cut_axis *a = rows; a != NULL && a->site != GRAPH_NONE; a = a->next) {
        const grail_reducer *r = results[a->site].reducer;
        if (r == NULL) {
            continue;
        }
        if (*out == NULL) {
            CHECK(memory_new_unset(out, (size_t)(o->layout.rows * taps), sizeof **out));
            memset(*out, true, (size_t)(o->layout.rows * taps) * sizeof **out);
        }
        const bool behind = site_is_remade(cut->plan, a->site);
        const int64_t first = cut_wide_place(cut->plan, rows, a->first) * taps;
        const int64_t units = site_wide_units(cut->plan, a->site);
        for (int64_t i = 0; i < units * a->features * taps; i++) {
            const int64_t unit = i / taps / a->features;
            (*out)[first + i] = behind ? unit >= r->units : r->labels[unit] >= 0;
        }
    }
    return GRAIL_OK;
}

/* Solves one regression with the reducer of what is observed (NULL for a map). Takes over the sums
 * of the observation. `prior` is the weight narrowed without data. */
static grail_status solve_one(const grail_comm *comm, observation *o, const grail_reducer *reducer,
                              const float *prior, const ridge_options *options, fitted_map *out)
{
    grail_status status = GRAIL_OK;
    regression fit = {0};
    regression held = {0};
    matrix prior_rows = {0};
    matrix weight = {0};
    backend *b = o->fit->owner;
    TRY(make_regressions(comm, o, reducer, prior, &prior_rows, &fit, &held));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, fit.outputs, fit.width, &weight));
    if (options->bias) {
        TRY(memory_new(&out->bias_change, (size_t)fit.outputs, sizeof out->bias_change[0]));
    }
    TRY(ridge_solve(&fit, &held, prior_rows, options, weight, out->bias_change, &out->result));
    regression_fini(&fit);
    regression_fini(&held);
    TRY(matrix_new(b, GRAIL_DTYPE_F32, weight.rows, weight.columns, &out->weight));
    TRY(matrix_copy(weight, out->weight));
    out->bias = options->bias && out->result.fallback != RIDGE_FALLBACK_PLAIN;
out:
    regression_fini(&fit);
    regression_fini(&held);
    matrix_free(&prior_rows);
    matrix_free(&weight);
    return status;
}

/* An observation of one group alone, with sums of its own; the rest is borrowed. */
static grail_status observe_group(const observation *o, int64_t group, observation *out)
{
    const int64_t rows = o->layout.rows / o->layout.groups * o->layout.tap_rows;
    *out = *o;
    out->fit = NULL;
    out->held = NULL;
    out->layout.rows /= o->layout.groups;
    out->layout.groups = 1;
    if (matrix_exists(o->weight_rows)) {
        out->weight_rows = matrix_rows(o->weight_rows, group * rows, rows);
    }
    CHECK(statistics_of_group(o->fit, group, &out->fit));
    return statistics_of_group(o->held, group, &out->held);
}

/* Puts the answer of a group among those of the others. */
static grail_status place_group(const fitted_map *own, int64_t group, int64_t groups,
                                fitted_map *out)
{
    const int64_t rows = own->weight.rows;
    if (group == 0) {
        CHECK(matrix_new(own->weight.owner, GRAIL_DTYPE_F32, groups * rows, own->weight.columns,
                         &out->weight));
        out->result = own->result;
    } else {
        ridge_result_join(&out->result, &own->result);
    }
    if (group == 0 && own->bias_change != NULL) {
        CHECK(memory_new(&out->bias_change, (size_t)(groups * rows), sizeof own->bias_change[0]));
    }
    for (int64_t o = 0; own->bias_change != NULL && o < rows; o++) {
        out->bias_change[group * rows + o] = own->bias_change[o];
    }
    out->bias = out->bias || own->bias;
    return matrix_copy(own->weight, matrix_rows(out->weight, group * rows, rows));
}

/* The regression of one group, whose features are the group's own. */
static grail_status solve_group(const grail_comm *comm, const observation *o, int64_t group,
                                const grail_reducer *reducer, const float *prior,
                                const ridge_options *options, fitted_map *out)
{
    grail_status status = GRAIL_OK;
    const int64_t groups = o->layout.groups;
    const int64_t rows = o->layout.rows / groups * o->layout.tap_rows;
    int64_t width = o->layout.features * o->layout.taps;
    observation own = {0};
    grail_reducer *map = NULL;
    fitted_map fitted = {0};
    ridge_options of_group = *options;
    of_group.judged = options->judged == NULL ? NULL : options->judged + group * rows;
    TRY(observe_group(o, group, &own));
    if (reducer != NULL) {
        TRY(reducer_of_group(reducer, groups, group, &map));
        width = width / map->units * map->kept;
    }
    TRY(solve_one(comm, &own, map, prior + group * rows * width, &of_group, &fitted));
    TRY(place_group(&fitted, group, groups, out));
out:
    grail_statistics_free(own.fit);
    grail_statistics_free(own.held);
    grail_reducer_free(map);
    fitted_map_fini(&fitted);
    return status;
}

/* Solves for a consumer, or for a map, which has no reducer; see solve_one. */
static grail_status fit_solve(const cutting *cut, const site_result *results,
                              const grail_comm *comm, observation *o, const grail_reducer *reducer,
                              const float *prior, fitted_map *out)
{
    grail_status status = GRAIL_OK;
    bool *judged = NULL;
    ridge_options options = options_of(cut, comm, o->node);
    TRY(find_judged(cut, results, o, &judged));
    options.judged = judged;
    options.moves_prior = reducer != NULL; /* a map that was not cut lacks nothing of its own */
    if (o->layout.groups == 1) {
        TRY(solve_one(comm, o, reducer, prior, &options, out));
    }
    for (int64_t g = 0; o->layout.groups > 1 && g < o->layout.groups; g++) {
        TRY(solve_group(comm, o, g, reducer, prior, &options, out));
    }
out:
    memory_free(judged);
    return status;
}

/* Solves for a map that reads what drifted; sums are of that value. *share is that of the dense
 * network's output in the target. */
static grail_status fit_solve_drift(const cutting *cut, const site_result *results,
                                    const grail_comm *comm, const observation *o,
                                    const drift_sums *fit, const drift_sums *held, double *share,
                                    fitted_map *out)
{
    grail_status status = GRAIL_OK;
    bool *judged = NULL;
    const int64_t outputs = o->layout.rows;
    ridge_options options = options_of(cut, comm, o->node);
    TRY(find_judged(cut, results, o, &judged));
    options.judged = judged;
    TRY(matrix_new(fit->input->owner, GRAIL_DTYPE_F32, outputs, o->layout.features, &out->weight));
    if (options.bias) {
        TRY(memory_new(&out->bias_change, (size_t)outputs, sizeof out->bias_change[0]));
    }
    TRY(drift_solve(fit, held, o->weight_rows, o->mixes, &options, out->weight, out->bias_change,
                    share, &out->result));
    out->bias = options.bias && out->result.fallback != RIDGE_FALLBACK_PLAIN;
out:
    memory_free(judged);
    return status;
}

/* -- consumers and maps ------------------------------------------------------------------------ */

/* Targets computed by multiplication contain no bias; the dense network's own output does. */
static grail_status shift_targets(const network_run *current, observation *o)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    double *wide = NULL;
    int64_t count = 0;
    const int parameter = current->graph->nodes[o->node].bias;
    if (parameter == GRAPH_NONE || o->target != OBSERVES_DENSE_OUTPUT) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(current->parameters, parameter, &bias, &count));
    TRY(memory_new(&wide, (size_t)count, sizeof wide[0]));
    for (int64_t i = 0; i < count; i++) {
        wide[i] = (double)bias[i];
    }
    TRY(statistics_shift_target(o->fit, wide));
    TRY(statistics_shift_target(o->held, wide));
out:
    memory_free(bias);
    memory_free(wide);
    return status;
}

/* The sums of a folding are already those of mixed rows. */
static grail_status mix_targets(observation *o)
{
    if (!o->mixes || o->remade) {
        return GRAIL_OK;
    }
    return statistics_mix_targets(o->fit, o->held, o->weight_rows, &o->gap);
}

/* The share of the dense network's output in the target. */
static double dense_share(const observation *o)
{
    if (o->mixes) {
        return target_gap_share(&o->gap);
    }
    return o->target == OBSERVES_DENSE_OUTPUT || o->target == OBSERVES_DENSE_PRODUCT ? 1.0 : 0.0;
}

/* Whether no row of the calibration samples came here, as can happen to an expert. */
static bool has_no_rows(const observation *o)
{
    return o->fit->count + o->held->count == 0;
}

static grail_status fit_consumer(const cutting *cut, const sample_passes *passes, observation *o,
                                 const float *prior, site_result *results)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    TRY(fit_solve(cut, results, passes->comm, o, results[o->site].reducer, prior, &fitted));
    TRY(consumer_set_matrix(cut, passes->current->parameters, results[o->site].reducer, o->site,
                            o->consumer, fitted.weight, fitted.bias_change));
    const grail_fit made =
        site_fit_of(site_consumer_name(cut->graph, cut_site(cut, o->site), o->consumer),
                    &fitted.result, dense_share(o), fitted.bias);
    TRY(site_result_add_fit(&results[o->site], &made));
out:
    fitted_map_fini(&fitted);
    return status;
}

/* The dense weights before the consumer are no longer needed. A later pass that needs them reads
 * them again. */
static void release_dense_before(const cutting *cut, int consumer, parameter_store *dense)
{
    int begin = 0;
    int end = 0;
    graph_block_range(cut->graph, cut->graph->nodes[consumer].block, &begin, &end);
    parameter_store_release_range(dense, begin, consumer);
}

/* What the fit and the selectors take is finite, exact where features are constant, and has the
 * target of the fit, whose weights are where the sums are. */
static grail_status settle_sums(const cutting *cut, const network_run *current, observation *o)
{
    CHECK(statistics_settle(o->fit));
    CHECK(statistics_settle(o->held));
    CHECK(shift_targets(current, o));
    if (cut->plan->compensation.enabled && !o->remade && o->target != OBSERVES_REMAINDER) {
        CHECK(weight_place(current->parameters, current->graph->nodes[o->node].weight, &o->layout,
                           o->weight, &o->weight_rows));
    }
    return mix_targets(o);
}

/* Every rank has solved the same sums: other bits come of other processors, or of a fault. */
static grail_status agree_on_weight(const network_run *current, const grail_comm *comm,
                                    int node_index)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int64_t count = 0;
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(current->parameters, current->graph->nodes[node_index].weight,
                                 &values, &count));
    TRY(comm_agree(comm, "fitted weights", "run all ranks on processors of one kind", values,
                   (size_t)count * sizeof values[0]));
out:
    memory_free(values);
    return status;
}

grail_status compensate_consumer(const cutting *cut, observation *o, sample_passes *passes,
                                 const regional_gradients *gradients, matrix metric,
                                 site_result *results)
{
    grail_status status = GRAIL_OK;
    float *prior = NULL;
    const double begun = clock_seconds();
    const profile_kind before = profile_enter(PROFILE_FITS);
    TRY(settle_sums(cut, passes->current, o));
    if (results[o->site].reducer == NULL) {
        TRY(decide_at_consumer(cut, o, passes, gradients, metric, results));
    }
    TRY(consumer_merge(cut, results[o->site].reducer, o->site, o->consumer, o->weight, &prior));
    release_dense_before(cut, o->node, passes->dense->parameters);
    if (has_no_rows(o)) {
        results[o->site].report.fit.fallback = site_fallback_name(SITE_NOT_REACHED);
        TRY(consumer_set(cut, passes->current->parameters, results[o->site].reducer, o->site,
                         o->consumer, prior, NULL));
    } else if (cut->plan->compensation.enabled) {
        TRY(fit_consumer(cut, passes, o, prior, results));
    } else {
        TRY(consumer_set(cut, passes->current->parameters, results[o->site].reducer, o->site,
                         o->consumer, prior, NULL));
    }
    TRY(agree_on_weight(passes->current, passes->comm, o->node));
    results[o->site].report.solve_seconds += clock_seconds() - begun;
    passes->compensate_seconds += clock_seconds() - begun;
out:
    profile_enter(before);
    memory_free(prior);
    return status;
}

/* Sets a fitted map, unless it stays as it is, and notes the fit. */
static grail_status keep_fit_of_map(const cutting *cut, const sample_passes *passes, int node_index,
                                    const fitted_map *fitted, double share, refit_list *refits)
{
    const graph *g = cut->graph;
    const node *n = &g->nodes[node_index];
    const grail_fit made =
        site_fit_of(g->parameters[n->weight].name, &fitted->result, share, fitted->bias);
    if (fitted->result.fallback != RIDGE_FALLBACK_PLAIN) {
        CHECK(map_set(cut, passes->current->parameters, node_index, fitted->weight,
                      fitted->bias_change));
    }
    CHECK(agree_on_weight(passes->current, passes->comm, node_index));
    return refits_add(refits, n->block, &made);
}

static grail_status refit_of(const graph *g, int node_index, grail_status status)
{
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("refit of '%s'", g->parameters[g->nodes[node_index].weight].name);
    }
    return status;
}

grail_status compensate_map(const cutting *cut, observation *o, sample_passes *passes,
                            const site_result *results, refit_list *refits)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    const double begun = clock_seconds();
    if (has_no_rows(o)) {
        return GRAIL_OK;
    }
    const profile_kind before = profile_enter(PROFILE_FITS);
    TRY(settle_sums(cut, passes->current, o));
    TRY(fit_solve(cut, results, passes->comm, o, NULL, o->weight, &fitted));
    TRY(keep_fit_of_map(cut, passes, o->node, &fitted, dense_share(o), refits));
    passes->compensate_seconds += clock_seconds() - begun;
out:
    profile_enter(before);
    fitted_map_fini(&fitted);
    return refit_of(cut->graph, o->node, status);
}

grail_status compensate_drifted_map(const cutting *cut, int node_index, const drift_sums *fit,
                                    const drift_sums *held, sample_passes *passes,
                                    const site_result *results, refit_list *refits)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    observation o = {0};
    double share = 1.0;
    const double begun = clock_seconds();
    if (fit->input->count + held->input->count == 0) {
        return GRAIL_OK;
    }
    const profile_kind before = profile_enter(PROFILE_FITS);
    parameter_store *current = passes->current->parameters;
    const int weight = cut->graph->nodes[node_index].weight;
    o = observation_of_map(cut, node_index);
    TRY(weight_is_placed(current, weight, &o.layout)
            ? GRAIL_OK
            : map_read(cut, current, node_index, &o.weight));
    TRY(weight_place(current, weight, &o.layout, o.weight, &o.weight_rows));
    TRY(fit_solve_drift(cut, results, passes->comm, &o, fit, held, &share, &fitted));
    TRY(keep_fit_of_map(cut, passes, node_index, &fitted, share, refits));
    passes->compensate_seconds += clock_seconds() - begun;
out:
    profile_enter(before);
    fitted_map_fini(&fitted);
    observation_fini(&o);
    return refit_of(cut->graph, node_index, status);
}

grail_status narrow_consumer_plainly(const cutting *cut, const grail_reducer *reducer, int index,
                                     int consumer, parameter_store *current)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    float *narrow = NULL;
    TRY(consumer_read(cut, current, index, consumer, &weight));
    TRY(consumer_merge(cut, reducer, index, consumer, weight, &narrow));
    TRY(consumer_set(cut, current, reducer, index, consumer, narrow, NULL));
out:
    memory_free(weight);
    memory_free(narrow);
    return status;
}
