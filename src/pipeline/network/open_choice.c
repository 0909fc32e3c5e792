#include "pipeline/network/open_choice.h"

#include "base/clock.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/open_loop.h"

static unsigned needs_of(const compression_request *request, int index)
{
    return site_decision_needs(&request->plan, index, site_at(request, index));
}

static bool is_chosen_openly(const compression_request *request, int index)
{
    return site_is_chosen_openly(&request->plan, index, site_at(request, index));
}

/* -- the order of decisions -------------------------------------------------------------------- */

/* The site whose decision comes before, because its removed units count nothing in the norms that
 * this one needs; GRAPH_NONE: none. Its scored producer stands before this one's, so that there is
 * no circle. */
static int decided_before(const compression_request *request, int index)
{
    if ((needs_of(request, index) & NEEDS_INPUT_NORMS) == 0) {
        return GRAPH_NONE;
    }
    const int read = scored_input_site(request, index);
    const bool precedes =
        read != GRAPH_NONE && scored_node(request, read) < scored_node(request, index);
    return precedes && !request->plan.sites[read].selector->folds ? read : GRAPH_NONE;
}

static int later(int a, int b)
{
    return a > b ? a : b;
}

/* The last node at whose input something is observed that the decision needs. */
static int last_needed_node(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    const bool of_input = (needs_of(request, index) & NEEDS_INPUT_NORMS) != 0;
    int last = of_input ? scored_node(request, index) : GRAPH_NONE;
    for (int k = 0; k < deciding_consumers(request, index); k++) {
        last = later(last, s->consumers[k].node);
    }
    const int before = decided_before(request, index);
    return before == GRAPH_NONE ? last : later(last, last_needed_node(request, before));
}

/* -- one decision ------------------------------------------------------------------------------ */

/* *out is [*count]; input_statistics_free frees it, even after a failure. */
static grail_status take_inputs(const compression_request *request, int index, int *count,
                                input_statistics **out)
{
    *count = deciding_consumers(request, index);
    CHECK(memory_new(out, (size_t)*count, sizeof(**out)));
    for (int k = 0; k < *count; k++) {
        CHECK(open_loop_input(request, index, k, needs_of(request, index), &(*out)[k]));
    }
    return GRAIL_OK;
}

/* *out is owned; NULL where no norms are needed. */
static grail_status take_norms(const calibration_network *network, int index, double **out)
{
    const compression_request *request = network->request;
    const int before = decided_before(request, index);
    if ((needs_of(request, index) & NEEDS_INPUT_NORMS) == 0) {
        return GRAIL_OK;
    }
    const int64_t width = scored_input_width(request, index);
    CHECK(memory_new(out, (size_t)width, sizeof **out));
    CHECK(open_loop_squares(request, index, *out));
    norms_of_squares(before == GRAPH_NONE ? NULL : network->chosen[before], width, *out);
    return GRAIL_OK;
}

static grail_status decide(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    input_statistics *inputs = NULL;
    double *norms = NULL;
    int count = 0;
    TRY(take_norms(network, index, &norms));
    TRY(take_inputs(network->request, index, &count, &inputs));
    const site_view known = {
        .weights = weights_of_store(network->dense.parameters),
        .input_norms = norms,
        .inputs = inputs,
        .input_count = count,
    };
    TRY(decide_site(network, index, &known, &network->chosen[index]));
out:
    memory_free(norms);
    input_statistics_free(count, inputs);
    return status;
}

static grail_status choose(calibration_network *network, int index)
{
    const int before = decided_before(network->request, index);
    if (network->chosen[index] != NULL) {
        return GRAIL_OK;
    }
    if (before != GRAPH_NONE) {
        CHECK(choose(network, before));
    }
    const double begun = clock_seconds();
    const grail_status status = decide(network, index);
    network->results[index].report.seconds += clock_seconds() - begun;
    return error_in(status, "site '%s'", network->request->sites->facts[index].name);
}

/* -- the passes -------------------------------------------------------------------------------- */

static int last_node(const compression_request *request)
{
    int last = GRAPH_NONE;
    for (int i = 0; i < request->plan.count; i++) {
        last = is_chosen_openly(request, i) ? later(last, last_needed_node(request, i)) : last;
    }
    return last;
}

/* Those that need nothing from node `end` on. */
static grail_status choose_before(calibration_network *network, int end, bool releases)
{
    const compression_request *request = network->request;
    for (int i = 0; i < request->plan.count; i++) {
        const bool waits = is_chosen_openly(request, i) && network->chosen[i] == NULL;
        if (waits && last_needed_node(request, i) < end) {
            CHECK(choose(network, i));
            if (releases) {
                open_loop_release(request, i);
            }
        }
    }
    return GRAIL_OK;
}

static grail_status choose_block_by_block(calibration_network *network)
{
    const graph *g = network->request->graph;
    const int last = last_node(network->request);
    int end = 0;
    for (int block = GRAPH_NONE; end <= last; block++) {
        int begin = 0;
        graph_block_range(g, block, &begin, &end);
        if (begin < end) {
            CHECK(open_loop_collect(network, end));
            CHECK(choose_before(network, end, true));
        }
        network_release_block(network, block);
    }
    return network_rewind(network);
}

/* Whether a pass can go block by block, which holds one block's weights at a time: units are chosen
 * so for one run alone. Where few sites of a closed loop are chosen before it, streams above all,
 * the session keeps their statistics for other runs. */
static bool goes_by_blocks(const compression_request *request)
{
    const plan *p = &request->plan;
    bool by_blocks = plan_selects_openly(p);
    for (int i = 0; i < p->count; i++) {
        by_blocks = by_blocks || (is_chosen_openly(request, i) && p->sites[i].normed);
    }
    return by_blocks && p->loop == LOOP_CLOSED;
}

grail_status choose_openly(calibration_network *network)
{
    const compression_request *request = network->request;
    if (!open_loop_is_needed(request)) {
        return GRAIL_OK;
    }
    if (request->statistics != NULL) {
        return choose_before(network, request->graph->node_count, false);
    }
    if (goes_by_blocks(request)) {
        return choose_block_by_block(network);
    }
    CHECK(open_loop_collect(network, request->graph->node_count));
    return choose_before(network, request->graph->node_count, false);
}
