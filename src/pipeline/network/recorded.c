#include "pipeline/network/recorded.h"

#include "pipeline/network/consumer.h"
#include "pipeline/request/consumer_tail.h"

/* A recorded tensor as f32 values of the shape it was planned to have. *out is owned. */
static grail_status read_recorded(const compression_request *request, int parameter,
                                  const checkpoint *recorded, float **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int64_t count = 0;
    int64_t stored = 0;
    const graph_parameter *p = &request->narrowed.graph->parameters[parameter];
    const tensor_view *tensor = checkpoint_find(recorded, p->tensor);
    const bool own_tensor = !p->part && !p->transposed;
    if (!own_tensor || tensor == NULL || !shape_elements(p->rank, p->shape, &count) ||
        !shape_elements(tensor->rank, tensor->shape, &stored) || stored != count) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: tensor '%s' cannot be continued; delete the directory and "
             "start anew",
             checkpoint_directory(recorded), p->tensor);
    }
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(convert_to_f32(tensor->dtype, tensor->data, count, values));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

grail_status widen_consumer(calibration_network *network, int index, int consumer,
                            const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    const compression_request *request = network->request;
    const int reader = site_at(request, index)->consumers[consumer].node;
    const bias_slot slot = consumer_bias_slot(request->graph, reader);
    TRY(read_recorded(request, request->graph->nodes[reader].weight, recorded, &values));
    TRY(consumer_set_stored(network, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        memory_free(values);
        values = NULL;
        TRY(read_recorded(request, slot.parameter, recorded, &values));
        TRY(parameter_store_set(network->current.parameters, slot.parameter,
                                request->narrowed.graph->parameters[slot.parameter].shape, values));
    }
out:
    memory_free(values);
    return status;
}
