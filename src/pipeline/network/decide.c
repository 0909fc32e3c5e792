#include "pipeline/network/decide.h"

#include "backend/operations.h"
#include "base/memory.h"
#include "exec/routed_rows.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/narrow.h"
#include "pipeline/network/pass.h"
#include "pipeline/request/consumer_tail.h"
#include "stats/row_squares.h"

#include <math.h>

/* -- what decisions are made from -----------------------------------------------------------------
 */

int deciding_consumers(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    const unsigned needs = site_decision_needs(&request->plan, index, s);
    return (needs & NEEDS_OF_CONSUMERS) == 0    ? 0
           : (needs & NEEDS_ALL_CONSUMERS) != 0 ? s->consumer_count
                                                : 1;
}

static scored_producers producers_that_score(const compression_request *request, const site *s,
                                             bool by_norms)
{
    const stream_score how = request->plan.stream_score;
    const bool one = s->kind == SITE_STREAM && how != STREAM_SCORE_ALL;
    return (scored_producers){
        .first = one && how == STREAM_SCORE_BRANCH ? site_branch_producer(request->graph, s) : 0,
        .count = one || by_norms ? 1 : s->producer_count};
}

int scored_node(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    return s->producers[producers_that_score(request, s, true).first].node;
}

static int scored_weight(const compression_request *request, int index)
{
    return request->graph->nodes[scored_node(request, index)].weight;
}

int64_t scored_input_width(const compression_request *request, int index)
{
    return request->graph->parameters[scored_weight(request, index)].shape[1];
}

int scored_input_site(const compression_request *request, int index)
{
    return request->cuts[scored_weight(request, index)].columns.site;
}

void norms_of_squares(const grail_reducer *reducer, int64_t width, double *squares)
{
    for (int64_t i = 0; i < width; i++) {
        const bool removed = reducer != NULL && reducer->labels[i / (width / reducer->units)] < 0;
        squares[i] = removed ? 0.0 : sqrt(squares[i]);
    }
}

/* -- decisions ------------------------------------------------------------------------------------
 */

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

/* -- experts --------------------------------------------------------------------------------------
 */

/* What one expert made. */
typedef struct routed_visit {
    int put; /* node that puts its rows back */
    routed_sum *sum;
} routed_visit;

/* Adds share times norm of the rows that a node is about to put back. */
static grail_status add_rows(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const routed_visit *visit = user;
    const node *put = &e->graph->nodes[visit->put];
    routed_rows found = {0};
    double *squares = NULL;
    const matrix made = execution_value(e, put->inputs[0]);
    (void)network;
    TRY(routed_rows_find(execution_value(e, put->inputs[1]), put->share, &found));
    TRY(memory_new(&squares, (size_t)found.count, sizeof squares[0]));
    if (found.count > 0) {
        TRY(row_squares(made, found.count, squares));
    }
    for (int64_t r = 0; r < found.count; r++) {
        visit->sum->norms += found.shares[r] * sqrt(squares[r]);
    }
    visit->sum->rows += found.count;
out:
    routed_rows_fini(&found);
    memory_free(squares);
    return status;
}

/* sums[experts] over all samples, in their order. */
static grail_status visit_experts(calibration_network *network, const branch_list *branches,
                                  routed_sum *sums)
{
    grail_status status = GRAIL_OK;
    routed_visit *visits = NULL;
    visitor *visitors = NULL;
    TRY(memory_new(&visits, (size_t)branches->count, sizeof visits[0]));
    TRY(memory_new(&visitors, (size_t)branches->count, sizeof visitors[0]));
    for (int b = 0; b < branches->count; b++) {
        visits[b] = (routed_visit){.put = branch_put(branches, b), .sum = &sums[b]};
        visitors[b] = (visitor){.node = visits[b].put, .add = add_rows, .user = &visits[b]};
    }
    const pass p = {.end = branch_put(branches, branches->count - 1) + 1,
                    .stays = true,
                    .in_order = true,
                    .visitors = visitors,
                    .visitor_count = branches->count};
    TRY(pass_run(network, &p));
out:
    memory_free(visits);
    memory_free(visitors);
    return status;
}

static grail_status note_unreached(const routed_sum *sums, int64_t count, site_result *result)
{
    int64_t *list = NULL;
    CHECK(memory_new(&list, (size_t)count, sizeof list[0]));
    result->unreached = list;
    for (int64_t b = 0; b < count; b++) {
        if (sums[b].rows == 0) {
            list[result->report.unreached_count++] = b;
        }
    }
    result->report.unreached = list;
    return GRAIL_OK;
}

/* Units that the plan names, and a rule that looks at nothing, need no pass. */
static bool looks_at_rows(const compression_request *request, int index)
{
    return (site_decision_needs(&request->plan, index, site_at(request, index)) & NEEDS_ROUTED) !=
           0;
}

grail_status experts_decide(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const site *s = site_at(request, index);
    const branch_list branches = site_branches(request->graph, s);
    routed_sum *sums = NULL;
    grail_reducer *reducer = NULL;
    TRY(memory_new(&sums, (size_t)s->units, sizeof sums[0]));
    if (looks_at_rows(request, index)) {
        TRY(visit_experts(network, &branches, sums));
        TRY(note_unreached(sums, s->units, &network->results[index]));
    }
    const site_view known = {.weights = weights_of_store(network->dense.parameters),
                             .routed = sums};
    TRY(decide_site(network, index, &known, &reducer));
    TRY(site_take_decision(network, index, reducer));
out:
    memory_free(sums);
    return status;
}

/* order[n]: the experts that stay, then the others. */
static void find_order(const grail_reducer *r, int64_t *order)
{
    int64_t gone = r->kept;
    for (int64_t e = 0; e < r->units; e++) {
        order[r->labels[e] >= 0 ? r->labels[e] : gone++] = e;
    }
}

/* Branch `to` gets the parameters of branch `from`. */
static grail_status move_parameters(calibration_network *network, const branch_list *b, int64_t to,
                                    int64_t from)
{
    const node *nodes = network->request->graph->nodes + b->begin;
    for (int i = 0; i < b->length; i++) {
        int own[NODE_MAX_PARAMETERS];
        int other[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&nodes[to * b->length + i], own);
        (void)node_parameters(&nodes[from * b->length + i], other);
        for (int k = 0; k < count; k++) {
            CHECK(parameter_store_stand_in(network->dense.parameters, own[k], other[k]));
        }
    }
    return GRAIL_OK;
}

grail_status experts_take_places(calibration_network *network, int index)
{
    const compression_request *request = network->request;
    const site *s = site_at(request, index);
    const branch_list b = site_branches(request->graph, s);
    int64_t **order = &network->orders[request->graph->nodes[b.route].output];
    CHECK(memory_new(order, (size_t)s->units, sizeof **order));
    find_order(network->results[index].reducer, *order);
    for (int64_t e = 0; e < s->units; e++) {
        CHECK(move_parameters(network, &b, e, (*order)[e]));
    }
    return GRAIL_OK;
}
