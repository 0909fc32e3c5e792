/* Heals the whole network: all parameters but embeddings are trained so that its outputs come
 * closer to the dense network's. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_NETWORK_H

#include "pipeline/network/network.h"

/** Saves where a training stands and restores it; both may be NULL. `restore` leaves *state alone
 * where nothing was saved. */
typedef struct heal_memory {
    grail_status (*save)(void *user, const optimizer *o, const training_state *state);
    grail_status (*restore)(void *user, optimizer *o, training_state *state);
    void *user;
} heal_memory;

/** Every parameter of the current network has its narrow shape. Afterwards the sample streams are
 * before node 0. The network is never left worse on held-out samples than it was. */
grail_status heal_network(calibration_network *network, const heal_memory *memory) GRAIL_MUST_CHECK;

#endif
