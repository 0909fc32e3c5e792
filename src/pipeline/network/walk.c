#include "pipeline/network/walk.h"

#include "base/clock.h"
#include "graph/operators.h"
#include "pipeline/network/compensate.h"
#include "pipeline/network/experts.h"
#include "pipeline/network/heal.h"
#include "pipeline/network/heal_block.h"
#include "pipeline/network/narrow.h"
#include "pipeline/network/norms.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/network/refit_maps.h"
#include "pipeline/network/regional.h"
#include "pipeline/network/rounding.h"

/* The cut site whose first producer is node `node_index`, or GRAPH_NONE. */
static int site_beginning_at(const cutting *cut, int node_index)
{
    for (int i = 0; i < cut->sites->count; i++) {
        if (site_is_cut(cut->plan, i) && cut_site(cut, i)->producers[0].node == node_index) {
            return i;
        }
    }
    return GRAPH_NONE;
}

/* The cut site that node `node_index` consumes, or GRAPH_NONE; *consumer becomes its index there.
 */
static int site_read_by(const cutting *cut, int node_index, int *consumer)
{
    const int weight = cut->graph->nodes[node_index].weight;
    const int index = weight == GRAPH_NONE ? GRAPH_NONE : cut->axes[weight].columns.site;
    for (int k = 0; index != GRAPH_NONE && k < cut_site(cut, index)->consumer_count; k++) {
        if (cut_site(cut, index)->consumers[k].node == node_index) {
            *consumer = k;
            return index;
        }
    }
    return GRAPH_NONE;
}

static grail_status observe_consumer(calibration_network *network, int index, int consumer)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init(&network->request->cut, network->current.parameters, index, consumer, &o));
    if (network->request->plan.loop == LOOP_OPEN) {
        TRY(open_loop_take(network->request, &o));
    } else {
        TRY(observation_take(&network->passes, &network->request->cut, network->results, &o));
    }
    TRY(compensate_consumer(&network->request->cut, &o, &network->passes, &network->regional,
                            network->results));
out:
    observation_fini(&o);
    return status;
}

static grail_status set_consumer(calibration_network *network, int index, int consumer,
                                 const recorded_parameters *recorded)
{
    const grail_reducer *reducer = network->results[index].reducer;
    if (recorded != NULL) {
        return restore_consumer(network, index, consumer, recorded);
    }
    return reducer == NULL || network->request->plan.compensation.enabled
               ? observe_consumer(network, index, consumer)
               : narrow_consumer_plainly(&network->request->cut, reducer, index, consumer,
                                         network->current.parameters);
}

static grail_status meet_consumer(calibration_network *network, int index, int consumer,
                                  const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const site *s = site_at(request, index);
    site_result *result = &network->results[index];
    const bool is_last = consumer == s->consumer_count - 1;
    const double begun = clock_seconds();
    TRY(set_consumer(network, index, consumer, recorded));
    if (is_last) {
        TRY(site_take_narrow_shape(&network->request->cut, network->results, index,
                                   &network->passes));
    }
    if (recorded != NULL) {
        return GRAIL_OK;
    }
    result->report.seconds += clock_seconds() - begun;
    if (is_last) {
        TRY(progress_tell(&network->passes.progress,
                          request->graph->nodes[s->consumers[0].node].block, &result->report));
    }
out:
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("site '%s'", request->sites->facts[index].name);
    }
    return status;
}

static bool is_of_experts(const calibration_network *network, int index)
{
    return site_at(network->request, index)->kind == SITE_EXPERTS;
}

static grail_status begin_site(calibration_network *network, int index, bool replay)
{
    grail_status status = GRAIL_OK;
    const cutting *cut = &network->request->cut;
    site_result *result = &network->results[index];
    parameter_store *dense = network->dense.parameters;
    const double begun = clock_seconds();
    if (cut_site(cut, index)->kind == SITE_EXPERTS) {
        TRY(replay ? GRAIL_OK : experts_decide(cut, index, &network->passes, result));
        TRY(experts_take_places(cut->graph, cut_site(cut, index), result->reducer, dense,
                                network->orders));
    } else if (!replay) {
        TRY(decide_at_producer(cut, index, &network->passes, &network->chosen[index],
                               network->results));
    } else if (site_is_remade(cut->plan, index)) {
        TRY(site_append_merged(cut, index, result->reducer, dense, network->current.parameters));
    }
    result->report.seconds += clock_seconds() - begun;
out:
    return error_in(status, "site '%s'", network->request->sites->facts[index].name);
}

/* The router, which may have been refitted, loses the rows of the experts that go. */
static grail_status finish_experts(calibration_network *network, int index, bool replay)
{
    const compression_request *request = network->request;
    CHECK(
        site_take_narrow_shape(&network->request->cut, network->results, index, &network->passes));
    return replay ? GRAIL_OK
                  : progress_tell(&network->passes.progress, site_at(request, index)->block,
                                  &network->results[index].report);
}

/* How many maps from this one on are refitted together: Linears of one input that follow each
 * other. A site that begins between them may add rows to its producers, so it begins a new run. */
static int refits_together(const calibration_network *network, int first)
{
    const compression_request *request = network->request;
    const graph *g = request->graph;
    const int block = g->nodes[first].block;
    int count = 1;
    for (int i = first + 1; i < g->node_count && refits_due(&network->refits, i, block);
         i++, count++) {
        const node *n = &g->nodes[i];
        if (!node_is_linear(n) || !node_is_linear(&g->nodes[first]) ||
            n->inputs[0] != g->nodes[first].inputs[0] || n->block != block ||
            site_beginning_at(&request->cut, i) != GRAPH_NONE) {
            break;
        }
    }
    return count;
}

/* Refits this map, and with it those behind it of the same input. */
static grail_status meet_map(calibration_network *network, int node_index)
{
    if (node_index >= network->refits.done) {
        const int count = refits_together(network, node_index);
        CHECK(refit_maps(&network->request->cut, node_index, count, &network->passes,
                         network->results, &network->refits));
        network->refits.done = node_index + count;
    }
    return GRAIL_OK;
}

/* How many Linears from this one on, of one input, are rounded together: up to one whose site
 * begins there, or which is to be refitted. */
static int rounds_together(const calibration_network *network, int first)
{
    const graph *g = network->request->graph;
    const node *n = &g->nodes[first];
    int count = 1;
    for (int i = first + 1; i < g->node_count && node_is_linear(&g->nodes[i]); i++, count++) {
        const bool waits = i >= network->refits.done && refits_due(&network->refits, i, n->block);
        if (waits || g->nodes[i].inputs[0] != n->inputs[0] || g->nodes[i].block != n->block ||
            site_beginning_at(&network->request->cut, i) != GRAPH_NONE) {
            break;
        }
    }
    return count;
}

/* Rounds this matrix, unless it was with one before it, once all fits of it are made. In a
 * block that is replayed, fits restore what is stored. */
static grail_status round_node(calibration_network *network, int node_index, bool is_fitted,
                               const recorded_parameters *recorded)
{
    const node *n = &network->request->graph->nodes[node_index];
    if (!node_is_rounded(network->request, node_index) || network->rounded[n->weight] != NULL) {
        return GRAIL_OK;
    }
    if (recorded != NULL) {
        return is_fitted ? GRAIL_OK : widen_map(network, node_index, recorded);
    }
    return node_is_linear(n) ? round_maps(network, node_index, rounds_together(network, node_index))
                             : round_table(network, n->weight);
}

/* A network in which nothing is cut keeps its statistics. */
static bool is_repaired(const cutting *cut, int node_index)
{
    return cut->plan->repair && node_has_moments(&cut->graph->nodes[node_index]) &&
           anything_is_cut(cut->plan);
}

/* The dropped site whose sublayer ends with this node, or GRAPH_NONE. */
static int dropped_site_at(const cutting *cut, int node_index)
{
    for (int i = 0; i < cut->plan->count; i++) {
        if (site_is_dropped(cut->plan, i) && cut_site(cut, i)->consumers[0].node == node_index) {
            return i;
        }
    }
    return GRAPH_NONE;
}

/* Tells of a dropped sublayer that ends with this node. */
static grail_status pass_dropped(calibration_network *network, int node_index)
{
    const compression_request *request = network->request;
    const int dropped = dropped_site_at(&request->cut, node_index);
    return dropped == GRAPH_NONE
               ? GRAIL_OK
               : progress_tell(&network->passes.progress, site_at(request, dropped)->block,
                               &network->results[dropped].report);
}

static grail_status meet_node(calibration_network *network, int node_index,
                              const recorded_parameters *recorded)
{
    int consumer = 0;
    const int begins = site_beginning_at(&network->request->cut, node_index);
    const int read = site_read_by(&network->request->cut, node_index, &consumer);
    const int block = network->request->graph->nodes[node_index].block;
    const bool is_refitted = refits_due(&network->refits, node_index, block);
    if (begins != GRAPH_NONE) {
        CHECK(begin_site(network, begins, recorded != NULL));
    }
    if (is_refitted) {
        CHECK(recorded != NULL ? widen_map(network, node_index, recorded)
                               : meet_map(network, node_index));
    }
    if (begins != GRAPH_NONE && is_of_experts(network, begins)) {
        CHECK(finish_experts(network, begins, recorded != NULL));
    }
    if (read != GRAPH_NONE) {
        CHECK(meet_consumer(network, read, consumer, recorded));
    }
    if (node_is_rescaled(network->request->cuts, &network->request->graph->nodes[node_index])) {
        CHECK(recorded != NULL ? widen_map(network, node_index, recorded)
                               : rescale_norm(&network->request->cut, node_index, network->results,
                                              &network->passes));
    }
    CHECK(round_node(network, node_index, is_refitted || read != GRAPH_NONE, recorded));
    if (recorded == NULL) {
        CHECK(pass_dropped(network, node_index));
    }
    if (network->request->plan.loop == LOOP_CLOSED &&
        is_repaired(&network->request->cut, node_index)) {
        CHECK(repair_batch_norm(&network->passes, node_index));
    }
    return GRAIL_OK;
}

/* Whether a node is changed, or decided, fitted or measured by what the sample streams hold. */
static bool node_reads_streams(const calibration_network *network, int node_index)
{
    const compression_request *request = network->request;
    int consumer = 0;
    return site_beginning_at(&request->cut, node_index) != GRAPH_NONE ||
           site_read_by(&request->cut, node_index, &consumer) != GRAPH_NONE ||
           dropped_site_at(&request->cut, node_index) != GRAPH_NONE ||
           network->refits.wanted[node_index] || is_repaired(&request->cut, node_index) ||
           node_is_rescaled(request->cuts, &request->graph->nodes[node_index]) ||
           node_is_rounded(request, node_index);
}

/* Whether the sample streams are carried behind this block, which begins with node `begin`: for
 * what later nodes need, and where the block itself was changed, since its parameters are released,
 * and inside it a stream would hold values of its former widths. */
static bool streams_are_wanted(const calibration_network *network, int block, int begin)
{
    const compression_request *request = network->request;
    bool read = heals_in_walk(request) && heal_block_has_time(network, block + 1);
    for (int i = begin; !read && i < request->graph->node_count; i++) {
        read = node_reads_streams(network, i);
    }
    return request->samples->batch_count > 0 && request->plan.loop == LOOP_CLOSED && read;
}

/* Whether the walk heals blocks; then *first to *last are those that are trained with this one. */
static bool is_healed(const compression_request *request, int block, int *first, int *last)
{
    heal_group_of(&request->heal, block, request->graph->block_count, first, last);
    return heals_in_walk(request);
}

/* Measures what only the dense block shows, and trains it where the plan asks for that. */
static grail_status enter_block(calibration_network *network, int block)
{
    int first = 0;
    int last = 0;
    if (is_healed(network->request, block, &first, &last) && block == first && last > first) {
        CHECK(heal_wait(network, first));
    }
    const double begun = clock_seconds();
    CHECK(regional_gradients_measure(network, block));
    network->passes.calibrate_seconds += clock_seconds() - begun;
    if (network->request->plan.compensation.regional_training) {
        const double trained =
            clock_seconds() - network->passes.calibrate_seconds; /* without its passes */
        CHECK(regional_train(network, block));
        network->passes.compensate_seconds +=
            clock_seconds() - network->passes.calibrate_seconds - trained;
    }
    return GRAIL_OK;
}

/* Heals a block, or at the last of a group all of them, or puts back the weights of a recorded one
 * that were trained. */
static grail_status leave_block(calibration_network *network, int block,
                                const recorded_parameters *recorded)
{
    int first = 0;
    int last = 0;
    const bool heals = is_healed(network->request, block, &first, &last);
    const bool trains = network->request->plan.compensation.regional_training;
    if (recorded != NULL) {
        return heals || trains ? restore_trained(network, block, recorded) : GRAIL_OK;
    }
    return heals && block == last ? heal_blocks(network, first, last) : GRAIL_OK;
}

grail_status compress_block(calibration_network *network, int block,
                            const recorded_parameters *recorded)
{
    int begin = 0;
    int end = 0;
    const bool is_block = block >= 0 && block < network->request->graph->block_count;
    graph_block_range(network->request->graph, block, &begin, &end);
    CHECK(silence_block(&network->request->cut, block, network->current.parameters));
    if (is_block && recorded == NULL) {
        CHECK(enter_block(network, block));
    }
    for (int i = begin; i < end; i++) {
        CHECK(meet_node(network, i, recorded));
    }
    regional_gradients_fini(&network->regional);
    if (is_block) {
        CHECK(leave_block(network, block, recorded));
    }
    const bool is_last = end == network->request->graph->node_count;
    if (begin < end && !is_last && streams_are_wanted(network, block, begin)) {
        CHECK(pass_to(&network->passes, end, network_dense_end(network, block)));
    }
    return GRAIL_OK;
}

grail_status repair_network(calibration_network *network)
{
    CHECK(sites_take_narrow_shapes(&network->request->cut, network->results, &network->current));
    for (int i = 0; i < network->request->graph->node_count; i++) {
        if (is_repaired(&network->request->cut, i)) {
            CHECK(repair_batch_norm(&network->passes, i));
        }
    }
    return GRAIL_OK;
}
