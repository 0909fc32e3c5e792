#include "pipeline/network/silence.h"

static grail_status set_zero(calibration_network *network, int parameter)
{
    grail_status status = GRAIL_OK;
    float *zeros = NULL;
    if (parameter == GRAPH_NONE) {
        return GRAIL_OK;
    }
    const int64_t count = model_parameter_elements(network->request->model, parameter);
    TRY(memory_new(&zeros, (size_t)count, sizeof zeros[0]));
    TRY(parameter_store_set(network->current.parameters, parameter,
                            network->request->graph->parameters[parameter].shape, zeros));
out:
    memory_free(zeros);
    return status;
}

grail_status silence_block(calibration_network *network, int block)
{
    const compression_request *request = network->request;
    for (int i = 0; i < request->plan.count; i++) {
        if (site_is_dropped(&request->plan, i) && site_at(request, i)->block == block) {
            const node *n = &request->graph->nodes[site_at(request, i)->consumers[0].node];
            CHECK(set_zero(network, n->weight));
            CHECK(set_zero(network, n->bias));
        }
    }
    return GRAIL_OK;
}

grail_status silence_dropped(calibration_network *network)
{
    for (int block = 0; block < network->request->graph->block_count; block++) {
        CHECK(silence_block(network, block));
    }
    return GRAIL_OK;
}
