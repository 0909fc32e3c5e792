/* Heals the whole network: all its parameters but tables of embeddings alone are trained so that
 * its outputs come closer to the dense network's. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H

#include "pipeline/network/heal_training.h"

/** Every parameter of the current network has its narrow shape. Afterwards the sample streams are
 * before node 0. The network is never left worse on held-out samples than it was. */
grail_status heal_network(calibration_network *network, const heal_memory *memory) GRAIL_MUST_CHECK;

#endif
