/* Adds the rows of a batch to the statistics of a consumer. Rows are tokens or positions; for a
 * convolution whose taps are fitted separately they are its unfolded patches. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVE_H
#define GRAIL_PIPELINE_NETWORK_OBSERVE_H

#include "pipeline/network/observation.h"

/** A batch_visitor; `user` is an observation. The current network has run up to the consumer and,
 * for a dense target, the dense one up to observation_dense_end. */
grail_status observation_add(calibration_network *network, int64_t batch,
                             void *user) GRAIL_MUST_CHECK;

/** Does the same for an observation made by observation_init_input; `e` has run up to the consumer.
 */
grail_status observation_add_input(observation *o, const execution *e,
                                   bool held_out) GRAIL_MUST_CHECK;

#endif
