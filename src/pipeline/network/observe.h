/* Adds the rows of a batch to the statistics of a consumer. Rows are tokens or positions; for a
 * convolution whose taps are fitted separately they are its unfolded patches. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVE_H
#define GRAIL_PIPELINE_NETWORK_OBSERVE_H

#include "pipeline/network/carry.h"
#include "pipeline/network/observation.h"

/** Carries the sample streams to the consumer and, for a dense target, the dense one to
 * observation_dense_end, and adds all batches that give statistics. */
grail_status observation_take(calibration_network *network, observation *o) GRAIL_MUST_CHECK;

/** Adds a batch to statistics as an observation made by observation_init_input has them; `e` has
 * run up to the consumer. */
grail_status observation_add_input(observation *o, const execution *e,
                                   grail_statistics *into) GRAIL_MUST_CHECK;

#endif
