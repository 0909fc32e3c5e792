#include "pipeline/network/recorded.h"

#include "pipeline/network/consumer.h"
#include "pipeline/network/narrow.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

grail_status restore_parameter(int parameter, const recorded_parameters *recorded,
                               parameter_store *current)
{
    grail_status status = GRAIL_OK;
    const graph_parameter *narrow = &recorded->narrowed->parameters[parameter];
    float *values = NULL;
    if (graph_parameter_is_gone(narrow)) {
        return GRAIL_OK;
    }
    TRY(recorded->read(recorded->from, parameter, &values));
    TRY(parameter_store_set(current, parameter, narrow->shape, values));
out:
    memory_free(values);
    return status;
}

grail_status restore_consumer(const cutting *cut, const grail_reducer *reducer, int index,
                              int consumer, const recorded_parameters *recorded,
                              parameter_store *current)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    const int reader = cut_site(cut, index)->consumers[consumer].node;
    const bias_slot slot = consumer_bias_slot(cut->graph, reader);
    TRY(recorded->read(recorded->from, cut->graph->nodes[reader].weight, &values));
    TRY(consumer_set_stored(cut, current, reducer, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        TRY(restore_parameter(slot.parameter, recorded, current));
    }
out:
    memory_free(values);
    return status;
}

/* Sets a parameter of the current network from its recorded narrow form: the rows of the kept units
 * at their places in the dense form, or behind it for a folding. */
static grail_status widen_rows(const cutting *cut, const site_result *results, int parameter,
                               const recorded_parameters *recorded, parameter_store *current)
{
    grail_status status = GRAIL_OK;
    const graph_parameter *narrow = &recorded->narrowed->parameters[parameter];
    const cut_axis *axis = &cut->axes[parameter].rows;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *values = NULL;
    float *wide = NULL;
    int64_t *places = NULL;
    const int64_t width = row_elements(narrow->rank, narrow->shape);
    if (axis->site == GRAPH_NONE) {
        return restore_parameter(parameter, recorded, current);
    }
    TRY(recorded->read(recorded->from, parameter, &values));
    memcpy(shape, narrow->shape, sizeof shape);
    const int64_t dense = cut->graph->parameters[parameter].shape[0];
    shape[0] = cut_wide_place(cut->plan, axis, dense);
    TRY(memory_new(&wide, (size_t)shape[0], (size_t)width * sizeof wide[0]));
    TRY(memory_new_unset(&places, (size_t)narrow->shape[0], sizeof places[0]));
    axis_reduced_features(cut->plan, results, axis, 0, dense, places);
    for (int64_t r = 0; r < narrow->shape[0]; r++) {
        memcpy(wide + places[r] * width, values + r * width, (size_t)width * sizeof wide[0]);
    }
    TRY(parameter_store_set(current, parameter, shape, wide));
out:
    memory_free(values);
    memory_free(wide);
    memory_free(places);
    return status;
}

grail_status widen_map(const cutting *cut, const site_result *results, int node_index,
                       const recorded_parameters *recorded, parameter_store *current)
{
    const graph *g = cut->graph;
    const bias_slot slot = consumer_bias_slot(g, node_index);
    CHECK(widen_rows(cut, results, g->nodes[node_index].weight, recorded, current));
    if (slot.parameter != GRAPH_NONE) {
        CHECK(widen_rows(cut, results, slot.parameter, recorded, current));
    }
    return GRAIL_OK;
}

grail_status restore_trained(const graph *g, int block, const recorded_parameters *recorded,
                             parameter_store *current)
{
    int begin = 0;
    int end = 0;
    graph_block_range(g, block, &begin, &end);
    for (int i = begin; i < end; i++) {
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[i], used);
        for (int k = 0; k < count; k++) {
            CHECK(restore_parameter(used[k], recorded, current));
        }
    }
    return GRAIL_OK;
}
