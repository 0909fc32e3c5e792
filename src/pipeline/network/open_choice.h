/* Chooses the units of sites by statistics of the dense network, before the walk: with an open
 * selection, in an open loop, and of residual streams that are scored by all that reads them. */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_CHOICE_H
#define GRAIL_PIPELINE_NETWORK_OPEN_CHOICE_H

#include "pipeline/network/network.h"

/** Takes the statistics that are needed, and makes these decisions; they wait in network->chosen.
 * Both sample streams stand before node 0, before and afterwards. In a closed loop with an open
 * selection the dense network runs block by block, and statistics live until their site is decided;
 * else one pass takes all, and the session keeps them for other runs. */
grail_status choose_openly(calibration_network *network) GRAIL_MUST_CHECK;

#endif
