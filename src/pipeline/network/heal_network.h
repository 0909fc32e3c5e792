/* Trains the whole network: all its parameters but tables of embeddings alone, so that its outputs
 * come closer to the dense network's. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H

#include "pipeline/network/heal_training.h"

/** Every parameter of the current network has its narrow shape. It lasts `seconds` at most, from
 * `begun` on. The network is never left worse on held-out samples than it was. */
grail_status heal_network_train(const heal_setting *s, const heal_memory *memory, double begun,
                                double seconds) GRAIL_MUST_CHECK;

#endif
