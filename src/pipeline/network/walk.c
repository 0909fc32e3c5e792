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

/* The first cut site from `from` on whose first producer is node `node_index`, or GRAPH_NONE. */
static int next_beginning_at(const cutting *cut, int from, int node_index)
{
    for (int i = from; i < cut->sites->count; i++) {
        if (site_is_cut(cut->plan, i) && cut_site(cut, i)->producers[0].node == node_index) {
            return i;
        }
    }
    return GRAPH_NONE;
}

static int site_beginning_at(const cutting *cut, int node_index)
{
    return next_beginning_at(cut, 0, node_index);
}

/* The first segment of what node `node_index` reads that a site cuts, or NULL. */
static const cut_axis *cut_read_by(const cutting *cut, int node_index)
{
    const int weight = cut->graph->nodes[node_index].weight;
    const cut_axis *columns = weight == GRAPH_NONE ? NULL : &cut->axes[weight].columns;
    for (int k = 0; columns != NULL && columns->site != GRAPH_NONE &&
                    k < cut_site(cut, columns->site)->consumer_count;
         k++) {
        if (cut_site(cut, columns->site)->consumers[k].node == node_index) {
            return columns;
        }
    }
    return NULL;
}

/* Which consumer of a site the node is. */
static int consumer_at(const site *s, int node_index)
{
    int k = 0;
    while (s->consumers[k].node != node_index) {
        k++;
    }
    return k;
}

static matrix metric_of(const calibration_network *network, int index)
{
    const site *s = cut_site(network->cut, index);
    return site_takes_metric(network->cut->plan, index, s)
               ? network->request->session->metrics[s->consumers[0].node]
               : no_matrix;
}

static grail_status observe_consumer(calibration_network *network, int index, int consumer)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init(network->cut, network->results[index].reducer, network->current.parameters,
                         index, consumer, &o));
    if (network->cut->plan->loop == LOOP_OPEN) {
        TRY(open_loop_take(network->request, &o));
    } else {
        TRY(observation_take(&network->passes, network->cut, network->results, &o));
    }
    TRY(compensate_consumer(network->cut, &o, &network->passes, &network->regional,
                            metric_of(network, index), network->results));
out:
    observation_fini(&o);
    return status;
}

static grail_status set_consumer(calibration_network *network, int index, int consumer,
                                 const recorded_parameters *recorded)
{
    const grail_reducer *reducer = network->results[index].reducer;
    if (recorded != NULL) {
        return restore_consumer(network->cut, reducer, index, consumer, recorded,
                                network->current.parameters);
    }
    return reducer == NULL || network->cut->plan->compensation.enabled
               ? observe_consumer(network, index, consumer)
               : narrow_consumer_plainly(network->cut, reducer, index, consumer,
                                         network->current.parameters);
}

/* Tells that a site is finished. */
static grail_status tell_site(const calibration_network *network, int index)
{
    const site *s = cut_site(network->cut, index);
    const int block =
        s->consumer_count > 0 ? network->cut->graph->nodes[s->consumers[0].node].block : s->block;
    return progress_tell(&network->passes.progress, block, &network->results[index].report);
}

static grail_status meet_consumer(calibration_network *network, int index, int consumer,
                                  const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    const bool is_last = consumer == cut_site(network->cut, index)->consumer_count - 1;
    const double begun = clock_seconds();
    TRY(set_consumer(network, index, consumer, recorded));
    if (is_last) {
        TRY(site_take_narrow_shape(network->cut, network->results, index, &network->passes));
    }
    if (recorded != NULL) {
        return GRAIL_OK;
    }
    network->results[index].report.seconds += clock_seconds() - begun;
    TRY(is_last ? tell_site(network, index) : GRAIL_OK);
out:
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("site '%s'", network->request->sites->facts[index].name);
    }
    return status;
}

static grail_status begin_site(calibration_network *network, int index, bool replay)
{
    grail_status status = GRAIL_OK;
    const cutting *cut = network->cut;
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

/* How many maps from this one on are refitted together: Linears of one input that follow each
 * other. A site that begins between them may add rows to its producers, so it begins a new run. */
static int refits_together(const calibration_network *network, int first)
{
    const graph *g = network->cut->graph;
    const int block = g->nodes[first].block;
    int count = 1;
    for (int i = first + 1; i < g->node_count && refits_due(&network->refits, i, block);
         i++, count++) {
        const node *n = &g->nodes[i];
        if (!node_is_linear(n) || !node_is_linear(&g->nodes[first]) ||
            n->inputs[0] != g->nodes[first].inputs[0] || n->block != block ||
            site_beginning_at(network->cut, i) != GRAPH_NONE) {
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
        CHECK(refit_maps(network->cut, node_index, count, &network->passes, network->results,
                         &network->refits));
        network->refits.done = node_index + count;
    }
    return GRAIL_OK;
}

/* How many Linears from this one on, of one input, are rounded together: up to one whose site
 * begins there, or which is to be refitted. */
static int rounds_together(const calibration_network *network, int first)
{
    const graph *g = network->cut->graph;
    const node *n = &g->nodes[first];
    int count = 1;
    for (int i = first + 1; i < g->node_count && node_is_linear(&g->nodes[i]); i++, count++) {
        const bool waits = i >= network->refits.done && refits_due(&network->refits, i, n->block);
        if (waits || g->nodes[i].inputs[0] != n->inputs[0] || g->nodes[i].block != n->block ||
            site_beginning_at(network->cut, i) != GRAPH_NONE) {
            break;
        }
    }
    return count;
}

/* Puts back a map as it was recorded. */
static grail_status put_back(calibration_network *network, int node_index,
                             const recorded_parameters *recorded)
{
    return widen_map(network->cut, network->results, node_index, recorded,
                     network->current.parameters);
}

/* Rounds this matrix, unless it was with one before it, once all fits of it are made. In a
 * block that is replayed, fits restore what is stored. */
static grail_status round_node(calibration_network *network, int node_index, bool is_fitted,
                               const recorded_parameters *recorded)
{
    const node *n = &network->cut->graph->nodes[node_index];
    if (!node_is_rounded(&network->request->rounded, n) || network->rounded[n->weight] != NULL) {
        return GRAIL_OK;
    }
    if (recorded != NULL) {
        return is_fitted ? GRAIL_OK : put_back(network, node_index, recorded);
    }
    const rounded_types *types = &network->request->rounded;
    return node_is_linear(n) ? round_maps(&network->passes, types, node_index,
                                          rounds_together(network, node_index), network->rounded)
                             : round_table(&network->current, types, n->weight, network->rounded);
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

static grail_status meet_node(calibration_network *network, int node_index,
                              const recorded_parameters *recorded)
{
    const cutting *cut = network->cut;
    const node *n = &cut->graph->nodes[node_index];
    const int begins = site_beginning_at(cut, node_index);
    const cut_axis *read = cut_read_by(cut, node_index);
    const int dropped = dropped_site_at(cut, node_index);
    const bool is_refitted = refits_due(&network->refits, node_index, n->block);
    const bool fresh = recorded == NULL;
    for (int i = begins; i != GRAPH_NONE; i = next_beginning_at(cut, i + 1, node_index)) {
        CHECK(begin_site(network, i, !fresh));
    }
    if (is_refitted) {
        CHECK(fresh ? meet_map(network, node_index) : put_back(network, node_index, recorded));
    }
    if (begins != GRAPH_NONE && cut_site(cut, begins)->kind == SITE_EXPERTS) {
        /* the router, which may have been refitted, loses the rows of the experts that go */
        CHECK(site_take_narrow_shape(cut, network->results, begins, &network->passes));
        CHECK(fresh ? tell_site(network, begins) : GRAIL_OK);
    }
    for (const cut_axis *axis = read; axis != NULL; axis = axis->next) {
        const int consumer = consumer_at(cut_site(cut, axis->site), node_index);
        CHECK(meet_consumer(network, axis->site, consumer, recorded));
    }
    if (node_is_rescaled(cut->axes, n)) {
        const cut_axis *axis = &cut->axes[n->weight].rows;
        CHECK(fresh ? rescale_norm(axis, network->results[axis->site].reducer, node_index,
                                   &network->passes)
                    : put_back(network, node_index, recorded));
    }
    CHECK(round_node(network, node_index, is_refitted || read != NULL, recorded));
    CHECK(fresh && dropped != GRAPH_NONE ? tell_site(network, dropped) : GRAIL_OK);
    return cut->plan->loop == LOOP_CLOSED && is_repaired(cut, node_index)
               ? repair_batch_norm(&network->passes, node_index)
               : GRAIL_OK;
}

/* Whether a node is changed, or decided, fitted or measured by what the sample streams hold. */
static bool node_reads_streams(const calibration_network *network, int node_index)
{
    const cutting *cut = network->cut;
    return site_beginning_at(cut, node_index) != GRAPH_NONE ||
           cut_read_by(cut, node_index) != NULL || dropped_site_at(cut, node_index) != GRAPH_NONE ||
           network->refits.wanted[node_index] || is_repaired(cut, node_index) ||
           node_is_rescaled(cut->axes, &cut->graph->nodes[node_index]) ||
           node_is_rounded(&network->request->rounded, &cut->graph->nodes[node_index]);
}

/* Whether anything from node `begin` on, behind this block or in it, reads the sample streams. */
static bool streams_are_read(const calibration_network *network, int block, int begin)
{
    bool read = heals_in_walk(network->cut, &network->request->heal) &&
                heal_block_has_time(network, block + 1);
    for (int i = begin; !read && i < network->cut->graph->node_count; i++) {
        read = node_reads_streams(network, i);
    }
    return read;
}

/* Carries the sample streams behind this block, nodes [begin, end): for what later nodes need, and
 * where the block itself was changed, since its parameters are released, and inside it a stream
 * would hold values of its former widths. What nothing needs but a judgement, its samples alone
 * need. */
static grail_status carry_streams(calibration_network *network, int block, int begin, int end)
{
    const pass p = {.end = end,
                    .with_dense = true,
                    .dense_end = network_dense_end(network, block),
                    .judged_alone = network->request->judges != JUDGES_NOTHING &&
                                    !streams_are_read(network, block, end)};
    const bool carried = network->passes.samples->batch_count > 0 &&
                         network->cut->plan->loop == LOOP_CLOSED &&
                         streams_are_read(network, block, begin);
    return carried ? pass_run(&network->passes, &p) : GRAIL_OK;
}

/* Whether the walk heals blocks; then *first to *last are those that are trained with this one. */
static bool is_healed(const calibration_network *network, int block, int *first, int *last)
{
    heal_group_of(&network->request->heal, block, network->cut->graph->block_count, first, last);
    return heals_in_walk(network->cut, &network->request->heal);
}

/* Measures what only the dense block shows, and trains it where the plan asks for that. */
static grail_status enter_block(calibration_network *network, int block)
{
    int first = 0;
    int last = 0;
    if (is_healed(network, block, &first, &last) && block == first && last > first) {
        CHECK(heal_wait(network, first));
    }
    const double begun = clock_seconds();
    CHECK(regional_gradients_measure(network->cut, &network->passes, block, &network->regional));
    network->passes.calibrate_seconds += clock_seconds() - begun;
    if (network->cut->plan->compensation.regional_training) {
        const double trained =
            clock_seconds() - network->passes.calibrate_seconds; /* without its passes */
        CHECK(regional_train(network->cut, &network->passes, block, &network->regional,
                             network->results));
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
    const bool heals = is_healed(network, block, &first, &last);
    const bool trains = network->cut->plan->compensation.regional_training;
    if (recorded != NULL) {
        return heals || trains ? restore_trained(network->cut->graph, block, recorded,
                                                 network->current.parameters)
                               : GRAIL_OK;
    }
    return heals && block == last ? heal_blocks(network, first, last) : GRAIL_OK;
}

grail_status compress_block(calibration_network *network, int block,
                            const recorded_parameters *recorded)
{
    int begin = 0;
    int end = 0;
    const bool is_block = block >= 0 && block < network->cut->graph->block_count;
    graph_block_range(network->cut->graph, block, &begin, &end);
    CHECK(silence_block(network->cut, block, network->current.parameters));
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
    const bool is_last = end == network->cut->graph->node_count;
    return begin < end && !is_last ? carry_streams(network, block, begin, end) : GRAIL_OK;
}

grail_status repair_network(calibration_network *network)
{
    CHECK(sites_take_narrow_shapes(network->cut, network->results, &network->current));
    for (int i = 0; i < network->cut->graph->node_count; i++) {
        if (is_repaired(network->cut, i)) {
            CHECK(repair_batch_norm(&network->passes, i));
        }
    }
    return GRAIL_OK;
}
