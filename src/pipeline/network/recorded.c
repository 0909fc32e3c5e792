#include "pipeline/network/recorded.h"

#include "pipeline/network/consumer.h"
#include "pipeline/request/consumer_tail.h"

grail_status widen_consumer(calibration_network *network, int index, int consumer,
                            const recorded_parameters *recorded)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    const compression_request *request = network->request;
    const int reader = site_at(request, index)->consumers[consumer].node;
    const bias_slot slot = consumer_bias_slot(request->graph, reader);
    TRY(recorded->read(recorded->from, request->graph->nodes[reader].weight, &values));
    TRY(consumer_set_stored(network, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        memory_free(values);
        values = NULL;
        TRY(recorded->read(recorded->from, slot.parameter, &values));
        TRY(parameter_store_set(network->current.parameters, slot.parameter,
                                request->narrowed.graph->parameters[slot.parameter].shape, values));
    }
out:
    memory_free(values);
    return status;
}
