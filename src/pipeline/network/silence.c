#include "pipeline/network/silence.h"

grail_status silence_block(calibration_network *network, int block)
{
    const compression_request *request = network->request;
    for (int i = 0; i < request->plan.count; i++) {
        if (site_is_dropped(&request->plan, i) && site_at(request, i)->block == block) {
            const node *n = &request->graph->nodes[site_at(request, i)->consumers[0].node];
            CHECK(parameter_store_set_zero(network->current.parameters, n->weight));
            CHECK(parameter_store_set_zero(network->current.parameters, n->bias));
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
