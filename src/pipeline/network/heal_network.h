/* Trains the whole network: all its parameters but tables of embeddings alone, so that its outputs
 * come closer to the dense network's. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H

#include "pipeline/network/heal_training.h"

/** How long a training may last: `seconds` from `begun` on, and `until` that time of
 * clock_seconds. */
typedef struct heal_limits {
    double begun, seconds, until;
} heal_limits;

/** Every parameter of the current network has its narrow shape. The network is never left worse on
 * held-out samples than it was. */
grail_status heal_network_train(const heal_setting *s, const heal_memory *memory,
                                const heal_limits *limits) GRAIL_MUST_CHECK;

#endif
