#include "pipeline/network/compensate.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/fit.h"
#include "stats/constant_features.h"

static const node *consumer_node(const compression_request *request, const observation *o)
{
    return &request->graph->nodes[o->node];
}

/* Targets computed by multiplication contain no bias; the dense network's own output does. */
static grail_status shift_targets(const calibration_network *network, observation *o)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    double *wide = NULL;
    int64_t count = 0;
    const int parameter = consumer_node(network->request, o)->bias;
    if (parameter == GRAPH_NONE || o->target != OBSERVES_DENSE_OUTPUT) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(network->current.parameters, parameter, &bias, &count));
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
    return statistics_mix_targets(o->fit, o->held, o->weight, &o->gap);
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

static grail_status fit_consumer(calibration_network *network, observation *o, const float *prior)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    TRY(fit_solve(network, o, network->results[o->site].reducer, prior, &fitted));
    TRY(consumer_set(network, o->site, o->consumer, fitted.weight, fitted.bias_change));
    const grail_fit made = site_fit_of(site_consumer_name(network->request, o->site, o->consumer),
                                       &fitted.result, dense_share(o), fitted.bias);
    TRY(site_result_add_fit(&network->results[o->site], &made));
out:
    fitted_map_fini(&fitted);
    return status;
}

/* The dense weights before the consumer are no longer needed. A later pass that needs them reads
 * them again. */
static void release_dense_before(calibration_network *network, int consumer)
{
    int begin = 0;
    int end = 0;
    graph_block_range(network->request->graph, network->request->graph->nodes[consumer].block,
                      &begin, &end);
    parameter_store_release_range(network->dense.parameters, begin, consumer);
}

/* What the fit and the selectors take is finite, exact where features are constant, and has the
 * target of the fit. */
static grail_status settle_sums(const calibration_network *network, observation *o)
{
    CHECK(statistics_settle(o->fit));
    CHECK(statistics_settle(o->held));
    CHECK(shift_targets(network, o));
    return mix_targets(o);
}

/* Every rank has solved the same sums: other bits come of other processors, or of a fault. */
static grail_status agree_on_weight(const calibration_network *network, int node_index)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = network->request->comm;
    float *values = NULL;
    int64_t count = 0;
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(network->current.parameters,
                                 network->request->graph->nodes[node_index].weight, &values,
                                 &count));
    TRY(comm_agree(comm, "fitted weights", "run all ranks on processors of one kind", values,
                   (size_t)count * sizeof values[0]));
out:
    memory_free(values);
    return status;
}

grail_status compensate_consumer(calibration_network *network, observation *o)
{
    grail_status status = GRAIL_OK;
    float *prior = NULL;
    const double begun = clock_seconds();
    TRY(settle_sums(network, o));
    if (network->results[o->site].reducer == NULL) {
        TRY(decide_at_consumer(network, o));
    }
    TRY(consumer_merge(network, network->results[o->site].reducer, o->site, o->consumer, o->weight,
                       &prior));
    release_dense_before(network, o->node);
    if (has_no_rows(o)) {
        network->results[o->site].report.fit.fallback = site_fallback_name(SITE_NOT_REACHED);
        TRY(consumer_set(network, o->site, o->consumer, prior, NULL));
    } else if (network->request->plan.compensation.enabled) {
        TRY(fit_consumer(network, o, prior));
    } else {
        TRY(consumer_set(network, o->site, o->consumer, prior, NULL));
    }
    TRY(agree_on_weight(network, o->node));
    network->results[o->site].report.solve_seconds += clock_seconds() - begun;
    network->compensate_seconds += clock_seconds() - begun;
out:
    memory_free(prior);
    return status;
}

/* Sets a fitted map, unless it stays as it is, and notes the fit. */
static grail_status keep_fit_of_map(calibration_network *network, int node_index,
                                    const fitted_map *fitted, double share)
{
    const graph *g = network->request->graph;
    const node *n = &g->nodes[node_index];
    const grail_fit made =
        site_fit_of(g->parameters[n->weight].name, &fitted->result, share, fitted->bias);
    if (fitted->result.fallback != RIDGE_FALLBACK_PLAIN) {
        CHECK(map_set(network, node_index, fitted->weight, fitted->bias_change));
    }
    CHECK(agree_on_weight(network, node_index));
    return refits_add(&network->refits, n->block, &made);
}

static grail_status refit_of(const calibration_network *network, int node_index,
                             grail_status status)
{
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        const graph *g = network->request->graph;
        error_prefix("refit of '%s'", g->parameters[g->nodes[node_index].weight].name);
    }
    return status;
}

grail_status compensate_map(calibration_network *network, observation *o)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    const double begun = clock_seconds();
    if (has_no_rows(o)) {
        return GRAIL_OK;
    }
    TRY(settle_sums(network, o));
    TRY(fit_solve(network, o, NULL, o->weight, &fitted));
    TRY(keep_fit_of_map(network, o->node, &fitted, dense_share(o)));
    network->compensate_seconds += clock_seconds() - begun;
out:
    fitted_map_fini(&fitted);
    return refit_of(network, o->node, status);
}

grail_status compensate_drifted_map(calibration_network *network, int node_index,
                                    const drift_sums *fit, const drift_sums *held)
{
    grail_status status = GRAIL_OK;
    fitted_map fitted = {0};
    observation o = {0};
    double share = 1.0;
    const double begun = clock_seconds();
    if (fit->input->count + held->input->count == 0) {
        return GRAIL_OK;
    }
    TRY(observation_read_map(network, node_index, &o));
    TRY(fit_solve_drift(network, &o, fit, held, &share, &fitted));
    TRY(keep_fit_of_map(network, node_index, &fitted, share));
    network->compensate_seconds += clock_seconds() - begun;
out:
    fitted_map_fini(&fitted);
    observation_fini(&o);
    return refit_of(network, node_index, status);
}

grail_status narrow_consumer_plainly(calibration_network *network, int index, int consumer)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    float *narrow = NULL;
    TRY(consumer_read(network, index, consumer, &weight));
    TRY(consumer_merge(network, network->results[index].reducer, index, consumer, weight, &narrow));
    TRY(consumer_set(network, index, consumer, narrow, NULL));
out:
    memory_free(weight);
    memory_free(narrow);
    return status;
}
