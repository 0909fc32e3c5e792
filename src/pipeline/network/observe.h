/* Observing: a batch's rows are added to the statistics of a consumer. Rows are tokens or
 * positions; a convolution that is fitted tap by tap is observed on its unfolded patches. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVE_H
#define GRAIL_PIPELINE_NETWORK_OBSERVE_H

#include "pipeline/network/observation.h"

/** A batch_visitor with an observation: the current network stands before the consumer, and for a
 * dense target the dense one where observation_dense_end says. */
grail_status observation_add(calibration_network *network, int64_t batch,
                             void *user) GRAIL_MUST_CHECK;

/** Of an observation_init_input: `e` stands before the consumer. */
grail_status observation_add_input(const observation *o, const execution *e,
                                   bool held_out) GRAIL_MUST_CHECK;

#endif
