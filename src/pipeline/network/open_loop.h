/* Statistics of the dense network: in an open loop those of all sites, which the session keeps for
 * other ratios, and those that choose units before the walk (docs/numerics.md, Closed and open
 * loop). Source: the GRAIL paper's vision code. */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H
#define GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H

#include "pipeline/network/network.h"
#include "pipeline/network/observation.h"

/** Copies the statistics into the observation; the session keeps its own for other ratios. */
grail_status open_loop_take(const compression_request *request, observation *o) GRAIL_MUST_CHECK;

/** Takes the statistics that are needed, and makes these decisions; they wait in network->chosen.
 * Both sample streams stand before node 0, before and afterwards. In a closed loop with an open
 * selection the dense network runs block by block, and statistics live until their site is decided;
 * else one pass takes all, and the session keeps them for other runs. */
grail_status choose_openly(calibration_network *network) GRAIL_MUST_CHECK;

#endif
