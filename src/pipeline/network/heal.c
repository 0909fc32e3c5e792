#include "pipeline/network/heal.h"

#include "pipeline/network/carry.h"
#include "pipeline/network/heal_block.h"
#include "pipeline/network/narrow_site.h"

bool heals_in_walk(const compression_request *request)
{
    bool spans = false;
    for (int i = 0; i < request->plan.count; i++) {
        spans = spans || (site_is_cut(&request->plan, i) &&
                          site_spans_blocks(request->graph, site_at(request, i)));
    }
    return request->heal.blocks && request->plan.loop == LOOP_CLOSED && !spans;
}

grail_status heal_prepare(calibration_network *network)
{
    const grail_status status = network_rewind(network);
    return status == GRAIL_OK ? sites_take_narrow_shapes(network) : status;
}

grail_status heal_blocks_after_walk(calibration_network *network)
{
    const compression_request *request = network->request;
    if (!request->heal.blocks || heals_in_walk(request)) {
        return GRAIL_OK;
    }
    CHECK(heal_prepare(network));
    for (int block = GRAPH_NONE; block < request->graph->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(request->graph, block, &begin, &end);
        if (block != GRAPH_NONE) {
            CHECK(heal_block(network, block));
        }
        if (heal_block_has_time(network, block + 1)) {
            CHECK(streams_carry(network, end, network_dense_end(network, block), NULL));
        }
    }
    return GRAIL_OK;
}
