/* Carries the sample streams from node to node. */
#ifndef GRAIL_PIPELINE_NETWORK_CARRY_H
#define GRAIL_PIPELINE_NETWORK_CARRY_H

#include "pipeline/network/network.h"

/** Called for each batch when the current network has run up to node `end`, and the dense one up to
 * `dense_end`. */
typedef grail_status (*batch_visitor)(calibration_network *network, int64_t batch, void *user);

/** Carries the current network's sample stream to node `end` and, unless dense_end is GRAPH_NONE,
 * the dense network's sample stream to dense_end, where it may be already or, behind a target
 * beyond dropped sublayers, further on; then it stays. visit may be NULL. */
grail_status streams_carry(calibration_network *network, int end, int dense_end,
                           batch_visitor visit, void *user) GRAIL_MUST_CHECK;

#endif
