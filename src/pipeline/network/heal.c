#include "pipeline/network/heal.h"

#include "pipeline/network/heal_block.h"
#include "pipeline/network/narrow_site.h"
#include "pipeline/network/pass.h"

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

/* Carries the sample streams behind a block, if the next one is healed. */
static grail_status carry_behind(calibration_network *network, int block)
{
    int begin = 0;
    int end = 0;
    if (!heal_block_has_time(network, block + 1)) {
        return GRAIL_OK;
    }
    graph_block_range(network->request->graph, block, &begin, &end);
    return pass_to(network, end, network_dense_end(network, block));
}

grail_status heal_blocks_after_walk(calibration_network *network)
{
    const compression_request *request = network->request;
    if (!request->heal.blocks || heals_in_walk(request)) {
        return GRAIL_OK;
    }
    CHECK(heal_prepare(network));
    CHECK(carry_behind(network, GRAPH_NONE));
    for (int first = 0, last = 0; first < request->graph->block_count; first = last + 1) {
        heal_group_of(&request->heal, first, request->graph->block_count, &first, &last);
        CHECK(heal_blocks(network, first, last));
        CHECK(carry_behind(network, last));
    }
    return GRAIL_OK;
}
