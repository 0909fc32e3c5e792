#include "pipeline/network/recorded.h"

#include "pipeline/network/consumer.h"
#include "pipeline/network/narrow.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

grail_status restore_parameter(calibration_network *network, int parameter,
                               const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    const graph_parameter *narrow = &network->request->narrowed.graph->parameters[parameter];
    float *values = NULL;
    if (graph_parameter_is_gone(narrow)) {
        return GRAIL_OK;
    }
    TRY(recorded->read(recorded->from, parameter, &values));
    TRY(parameter_store_set(network->current.parameters, parameter, narrow->shape, values));
out:
    memory_free(values);
    return status;
}

grail_status restore_consumer(calibration_network *network, int index, int consumer,
                              const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    const compression_request *request = network->request;
    const int reader = site_at(request, index)->consumers[consumer].node;
    const bias_slot slot = consumer_bias_slot(request->graph, reader);
    TRY(recorded->read(recorded->from, request->graph->nodes[reader].weight, &values));
    TRY(consumer_set_stored(&request->cut, network->current.parameters,
                            network->results[index].reducer, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        TRY(restore_parameter(network, slot.parameter, recorded));
    }
out:
    memory_free(values);
    return status;
}

/* Sets a parameter of the current network from its recorded narrow form: the rows of the kept units
 * at their places in the dense form, or behind it for a folding. */
static grail_status widen_rows(calibration_network *network, int parameter,
                               const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const graph_parameter *narrow = &request->narrowed.graph->parameters[parameter];
    const cut_axis *axis = &request->cuts[parameter].rows;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *values = NULL;
    float *wide = NULL;
    int64_t *places = NULL;
    int64_t width = 1;
    if (axis->site == GRAPH_NONE) {
        return restore_parameter(network, parameter, recorded);
    }
    TRY(recorded->read(recorded->from, parameter, &values));
    memcpy(shape, narrow->shape, sizeof shape);
    for (int d = 1; d < narrow->rank; d++) {
        width *= narrow->shape[d];
    }
    shape[0] = cut_wide_features(&request->plan, axis);
    TRY(memory_new(&wide, (size_t)shape[0], (size_t)width * sizeof wide[0]));
    TRY(memory_new_unset(&places, (size_t)narrow->shape[0], sizeof places[0]));
    axis_reduced_features(&request->plan, network->results[axis->site].reducer, axis, places);
    for (int64_t r = 0; r < narrow->shape[0]; r++) {
        memcpy(wide + places[r] * width, values + r * width, (size_t)width * sizeof wide[0]);
    }
    TRY(parameter_store_set(network->current.parameters, parameter, shape, wide));
out:
    memory_free(values);
    memory_free(wide);
    memory_free(places);
    return status;
}

grail_status widen_map(calibration_network *network, int node_index,
                       const recorded_parameters *recorded)
{
    const graph *g = network->request->graph;
    const bias_slot slot = consumer_bias_slot(g, node_index);
    CHECK(widen_rows(network, g->nodes[node_index].weight, recorded));
    if (slot.parameter != GRAPH_NONE) {
        CHECK(widen_rows(network, slot.parameter, recorded));
    }
    return GRAIL_OK;
}

grail_status restore_trained(calibration_network *network, int block,
                             const recorded_parameters *recorded)
{
    const graph *g = network->request->graph;
    int begin = 0;
    int end = 0;
    graph_block_range(g, block, &begin, &end);
    for (int i = begin; i < end; i++) {
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[i], used);
        for (int k = 0; k < count; k++) {
            CHECK(restore_parameter(network, used[k], recorded));
        }
    }
    return GRAIL_OK;
}
