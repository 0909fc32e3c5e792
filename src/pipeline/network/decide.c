#include "pipeline/network/decide.h"

#include "backend/operations.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/decision_input.h"
#include "pipeline/network/merged_rows.h"
#include "pipeline/request/consumer_tail.h"

/* squares[features] of the input of a producer; `wide` columns at most in the current network. */
static grail_status observe_squares(calibration_network *network, int producer, int64_t wide,
                                    int64_t features, double *squares)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    column_sums s = {0};
    TRY(column_sums_init(request->backend, request->graph->nodes[producer].inputs[0], wide, false,
                         &s));
    TRY(pass_visit(network, producer, GRAPH_NONE, column_sums_visitor(&s, producer)));
    TRY(matrix_download(matrix_columns(s.squares, 0, features), squares));
out:
    column_sums_fini(&s);
    return status;
}

/* Norms of the features of the scored producer's input. *out is owned. */
static grail_status measure_input_norms(calibration_network *network, int index, double **out)
{
    const compression_request *request = network->request;
    const int producer = scored_node(request, index);
    const cut_axis *columns = &request->cuts[request->graph->nodes[producer].weight].columns;
    const int64_t features = scored_input_width(request, index);
    const int64_t cut =
        columns->site == GRAPH_NONE ? features : cut_wide_features(&request->plan, columns);
    CHECK(memory_new(out, (size_t)features, sizeof **out));
    CHECK(observe_squares(network, producer, cut > features ? cut : features, features, *out));
    norms_of_squares(columns->site == GRAPH_NONE ? NULL : network->results[columns->site].reducer,
                     features, *out);
    return GRAIL_OK;
}

static grail_status borrow_dense(void *context, int parameter, const float **out, float **owned)
{
    return parameter_store_borrow_f32(context, parameter, out, owned);
}

weight_source weights_of_store(parameter_store *store)
{
    return (weight_source){.borrow = borrow_dense, .context = store};
}

/* NULL where they were not asked for. */
static const float *gradients_of_consumer(const calibration_network *network, int index,
                                          int consumer)
{
    const int reader = site_at(network->request, index)->consumers[consumer].node;
    const int weight = network->request->graph->nodes[reader].weight;
    return network->regional.of == NULL ? NULL : network->regional.of[weight];
}

grail_status decide_site(calibration_network *network, int index, const site_view *known,
                         grail_reducer **out)
{
    const compression_request *request = network->request;
    const plan_site *planned = &request->plan.sites[index];
    const site *s = site_at(request, index);
    site_view view = *known;
    view.graph = request->graph;
    view.site = s;
    view.kept = planned->kept;
    view.backend = request->backend;
    view.comm = request->comm;
    view.seed = request->plan.seed;
    view.stream = (uint64_t)index;
    const scored_producers scored = producers_that_score(request, s, view.input_norms != NULL);
    view.first_scored = scored.first;
    view.scored_producers = scored.count;
    view.fits_bias =
        s->consumer_count > 0 &&
        consumer_fits_bias(request->graph, &request->plan.compensation, s->consumers[0].node);
    if (planned->kept_units != NULL) {
        return grail_reducer_from_selection(planned->units, planned->kept, planned->kept_units,
                                            out);
    }
    return selector_choose(planned->selector, &view, out);
}

grail_status site_take_decision(calibration_network *network, int index, grail_reducer *reducer)
{
    site_result *result = &network->results[index];
    result->report.tied = reducer->tied ? 1 : 0;
    return site_result_decide(result, site_at(network->request, index)->kind, reducer);
}

/* Decides from the dense weights, and from statistics of a consumer's input; NULL: none. */
static grail_status decide(calibration_network *network, int index, const double *input_norms,
                           input_statistics *input)
{
    grail_reducer *made = NULL;
    const site_view known = {
        .weights = weights_of_store(network->dense.parameters),
        .input_norms = input_norms,
        .inputs = input,
        .input_count = input == NULL ? 0 : 1,
    };
    CHECK(decide_site(network, index, &known, &made));
    return site_take_decision(network, index, made);
}

/* Whether the site is decided when its first consumer is observed. Units that the plan names are
 * taken where the selector would choose them, because fits before that judge all outputs; a plain
 * cut observes no consumer for them. */
static bool waits_for_consumer(const plan *p, int index, const site *s)
{
    const compensation *how = &p->compensation;
    const unsigned needs = selector_needs(p->sites[index].selector, s);
    const bool named = p->sites[index].kept_units != NULL;
    const bool observes = !named || how->enabled || how->regional_training;
    return observes && (needs & NEEDS_OF_CONSUMERS) != 0 && (needs & NEEDS_ALL_CONSUMERS) == 0 &&
           !p->sites[index].normed && !plan_selects_openly(p);
}

/* Decides at the first producer, or takes what was chosen before the walk. */
static grail_status decide_here(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const plan *p = &network->request->plan;
    double *norms = NULL;
    if (network->chosen[index] != NULL) {
        grail_reducer *chosen = network->chosen[index];
        network->chosen[index] = NULL;
        return site_take_decision(network, index, chosen);
    }
    if ((site_decision_needs(p, index, site_at(network->request, index)) & NEEDS_INPUT_NORMS) !=
        0) {
        TRY(measure_input_norms(network, index, &norms));
    }
    TRY(decide(network, index, norms, NULL));
out:
    memory_free(norms);
    return status;
}

grail_status decide_at_producer(calibration_network *network, int index)
{
    const plan *p = &network->request->plan;
    if (waits_for_consumer(p, index, site_at(network->request, index))) {
        return GRAIL_OK;
    }
    CHECK(decide_here(network, index));
    if (site_is_remade(p, index)) {
        CHECK(site_append_merged(network, index));
    }
    return GRAIL_OK;
}

grail_status decide_at_consumer(calibration_network *network, const observation *o)
{
    grail_status status = GRAIL_OK;
    input_statistics *input = NULL;
    const site *s = site_at(network->request, o->site);
    const unsigned needs = site_decision_needs(&network->request->plan, o->site, s);
    TRY(memory_new(&input, 1, sizeof input[0]));
    TRY(input_statistics_take(needs, o->fit, o->held, input));
    input->gradients = gradients_of_consumer(network, o->site, o->consumer);
    TRY(decide(network, o->site, NULL, input));
out:
    input_statistics_free(1, input);
    return status;
}
