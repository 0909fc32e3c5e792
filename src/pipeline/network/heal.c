#include "pipeline/network/heal.h"

#include "base/clock.h"
#include "graph/operators.h"
#include "pipeline/network/heal_block.h"
#include "pipeline/network/heal_network.h"
#include "pipeline/network/narrow.h"
#include "pipeline/network/pass.h"
#include "pipeline/request/regions.h"

bool heals_in_walk(const cutting *cut, const heal_options *options)
{
    bool spans = false;
    for (int i = 0; i < cut->plan->count; i++) {
        spans = spans ||
                (site_is_cut(cut->plan, i) && site_waits_for_network(cut->graph, cut_site(cut, i)));
    }
    return options->blocks && cut->plan->loop == LOOP_CLOSED && !spans;
}

/* -- what trainings work on -------------------------------------------------------------------- */

static heal_setting setting_of(calibration_network *network)
{
    return (heal_setting){.dense = &network->dense,
                          .current = &network->current,
                          .wide = network->request->graph,
                          .backend = network->request->backend,
                          .pool = network->pool,
                          .comm = network->passes.comm,
                          .sites = network->cut->sites,
                          .plan = network->cut->plan,
                          .options = &network->request->heal,
                          .memory = network->memory,
                          .at_most = &network->passes.samples_at_once,
                          .samples = network->passes.samples,
                          .observer = network->request->heal_observer,
                          .observer_user = network->request->observer_user,
                          .made = &network->healings};
}

/* -- time for blocks --------------------------------------------------------------------------- */

/* The share of these blocks of what is left for blocks, where all that are not trained yet have
 * even ones. Half of all is kept for the network where it is healed. */
static double share_of(const calibration_network *network, int first, int last)
{
    const heal_options *h = &network->request->heal;
    const double left = (h->network ? 0.5 : 1.0) * h->chosen.time - network->healings.seconds;
    return left * (double)(last - first + 1) /
           (double)(network->request->graph->block_count - first);
}

bool heal_block_has_time(const calibration_network *network, int block)
{
    int first = 0;
    int last = 0;
    const heal_options *options = &network->request->heal;
    const int blocks = network->cut->graph->block_count;
    const healing_list *list = &network->healings;
    const grail_healing *before = list->count > 0 ? &list->made[list->count - 1] : NULL;
    const double set_up = before != NULL && before->steps == 0 ? before->seconds : 0.0;
    if (block >= blocks) {
        return false;
    }
    heal_group_of(options, block, blocks, &first, &last);
    return share_of(network, first, last) > set_up;
}

/* -- blocks ------------------------------------------------------------------------------------ */

grail_status heal_wait(calibration_network *network, int first)
{
    int begin = 0;
    int end = 0;
    if (!heal_block_has_time(network, first)) {
        return GRAIL_OK;
    }
    graph_block_range(network->request->graph, first, &begin, &end);
    CHECK(pass_to(&network->passes, begin, GRAPH_NONE));
    return sample_stream_copy(&network->current.stream, &network->before_group);
}

/* Puts the current sample stream before the blocks again, where it was kept there, and carries the
 * dense one behind them. */
static grail_status place_streams(calibration_network *network, int first, int last)
{
    int begin = 0;
    int end = 0;
    if (network->before_group.graph != NULL) {
        sample_stream_fini(&network->current.stream);
        network->current.stream = network->before_group;
        network->before_group = (sample_stream){0};
    }
    graph_block_range(network->request->graph, first, &begin, &end);
    return pass_to(&network->passes, begin, network_dense_end(network, last));
}

static grail_status add_goal(const calibration_network *network, int value, int block,
                             heal_goal *out)
{
    const graph *g = network->cut->graph;
    const cut_axis *axis = cut_of_value(g, network->cut->axes, value);
    const bool is_cut = axis->site != GRAPH_NONE;
    *out = (heal_goal){.value = value,
                       .dense = value,
                       .reducer = is_cut ? network->results[axis->site].reducer : NULL,
                       .features = axis->features};
    return is_cut && cut_site(network->cut, axis->site)->is_part
               ? error_set(GRAIL_ERROR_UNSUPPORTED,
                           "cannot heal block %d: site '%s' cuts a part of a value that leaves it; "
                           "heal the network instead",
                           block, cut_site(network->cut, axis->site)->name)
               : GRAIL_OK;
}

/* Pairs the values that live behind the blocks with those of the dense sample stream. Where that
 * one is ahead, behind sublayers that are dropped, there is one of each. *out[*count] is owned. */
static grail_status find_goals(const calibration_network *network, int first, int last,
                               heal_goal **out, int *count)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    const sample_stream *dense = &network->dense.stream;
    heal_goal *goals = NULL;
    int *live = NULL;
    int begin = 0;
    int end = 0;
    int ignored = 0;
    graph_block_range(g, first, &begin, &ignored);
    graph_block_range(g, last, &ignored, &end);
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    const int live_count = graph_live_values(g, end, live);
    TRY(memory_new(&goals, (size_t)live_count, sizeof goals[0]));
    *count = 0;
    for (int i = 0; i < live_count; i++) {
        if (g->value_source[live[i]] >= begin) {
            TRY(add_goal(network, live[i], last, &goals[(*count)++]));
        }
    }
    if (network->dense.graph != g || dense->position != end) {
        if (*count != 1 || dense->live_count != 1) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "cannot heal block %d: %d values leave it, and the dense network has %d there; "
                 "heal the model instead",
                 last, *count, dense->live_count);
        }
        goals[0].dense = dense->live[0];
    }
    *out = goals;
    goals = NULL;
out:
    memory_free(goals);
    memory_free(live);
    return status;
}

/* The region that no gradient goes through in these blocks. */
static grail_status find_stop(const graph *g, int first, int last, int *out)
{
    bool *hidden = NULL;
    int begin = 0;
    int end = 0;
    int ignored = 0;
    graph_block_range(g, first, &begin, &ignored);
    graph_block_range(g, last, &ignored, &end);
    const grail_status status = regions_hide(g, begin, end, &hidden, out);
    memory_free(hidden);
    return status;
}

grail_status heal_blocks(calibration_network *network, int first, int last)
{
    grail_status status = GRAIL_OK;
    heal_setting setting = setting_of(network);
    heal_goal *goals = NULL;
    healed_blocks blocks = {.first = first, .last = last, .begun = clock_seconds()};
    int stop = 0;
    CHECK(find_stop(network->request->graph, first, last, &stop));
    if (stop > 0 || !heal_block_has_time(network, first)) {
        return heal_training_skip(&setting, first, last, stop);
    }
    TRY(place_streams(network, first, last));
    TRY(find_goals(network, first, last, &goals, &blocks.goal_count));
    TRY(passes_trained_samples(&network->passes, &setting.usable_count, &setting.usable));
    blocks.goals = goals;
    blocks.seconds = share_of(network, first, last);
    TRY(heal_block_train(&setting, &blocks));
out:
    memory_free(goals);
    memory_free(setting.usable);
    matrix_pool_clear(network->pool);
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix(first == last ? "healing of block %d" : "healing of blocks %d to %d", first,
                     last);
    }
    return status;
}

/* Puts the sample streams of a finished network before node 0, and gives every parameter its narrow
 * shape. */
static grail_status begin_anew(calibration_network *network)
{
    const grail_status status = network_rewind(network);
    return status == GRAIL_OK ? sites_take_narrow_shapes(&network->request->cut, network->results,
                                                         &network->current)
                              : status;
}

/* Carries the sample streams behind a block, if the next one is healed. */
static grail_status carry_behind(calibration_network *network, int block)
{
    int begin = 0;
    int end = 0;
    if (!heal_block_has_time(network, block + 1)) {
        return GRAIL_OK;
    }
    graph_block_range(network->request->graph, block, &begin, &end);
    return pass_to(&network->passes, end, network_dense_end(network, block));
}

grail_status heal_blocks_after_walk(calibration_network *network)
{
    const heal_options *options = &network->request->heal;
    const int blocks = network->cut->graph->block_count;
    if (!options->blocks || heals_in_walk(network->cut, options)) {
        return GRAIL_OK;
    }
    CHECK(begin_anew(network));
    CHECK(carry_behind(network, GRAPH_NONE));
    for (int first = 0, last = 0; first < blocks; first = last + 1) {
        heal_group_of(options, first, blocks, &first, &last);
        CHECK(heal_blocks(network, first, last));
        CHECK(carry_behind(network, last));
    }
    return GRAIL_OK;
}

/* -- the network ------------------------------------------------------------------------------- */

/* Samples of its own, none of which judges, or those of the passes. */
static grail_status choose_samples(const calibration_network *network, heal_setting *s)
{
    const calibration *own = network->request->healed;
    if (own == NULL) {
        return passes_trained_samples(&network->passes, &s->usable_count, &s->usable);
    }
    s->samples = own;
    CHECK(memory_new_unset(&s->usable, (size_t)own->count, sizeof s->usable[0]));
    for (s->usable_count = 0; s->usable_count < own->count; s->usable_count++) {
        s->usable[s->usable_count] = s->usable_count;
    }
    return GRAIL_OK;
}

grail_status heal_network(calibration_network *network, const heal_memory *memory, double until)
{
    grail_status status = GRAIL_OK;
    heal_setting setting = setting_of(network);
    CHECK(begin_anew(network));
    const heal_limits limits = {.begun = clock_seconds(),
                                .seconds =
                                    network->request->heal.chosen.time - network->healings.seconds,
                                .until = until};
    TRY(choose_samples(network, &setting));
    TRY(heal_network_train(&setting, memory, &limits));
    TRY(network_rewind(network));
out:
    memory_free(setting.usable);
    matrix_pool_clear(network->pool);
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("healing of the network");
    }
    return status;
}
