/* What a consumer should produce when the dense network is the target. */
#ifndef GRAIL_PIPELINE_NETWORK_TARGET_H
#define GRAIL_PIPELINE_NETWORK_TARGET_H

#include "pipeline/network/network.h"

/** Y[rows, outputs] of the present batch: the dense network's own output at this consumer, plus the
 * drift of what it is added to. The current network stands before the node, the dense one behind
 * it. *out is of the pool: buffer_pool_give. */
grail_status dense_target(const calibration_network *network, int consumer,
                          void **out) GRAIL_MUST_CHECK;

#endif
