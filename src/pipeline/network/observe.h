/* Adds the rows of a batch to the statistics of a consumer. Rows are tokens or positions; for a
 * convolution whose taps are fitted separately they are its unfolded patches. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVE_H
#define GRAIL_PIPELINE_NETWORK_OBSERVE_H

#include "pipeline/network/observation.h"
#include "pipeline/network/pass.h"

/** Carries the sample streams to the consumer and, for a dense target, the dense one to
 * observation_dense_end, and adds all batches that give statistics. */
grail_status observation_take(calibration_network *network, observation *o) GRAIL_MUST_CHECK;

/** The sums of a chunk, which observation_take makes itself. */
grail_status observation_create_part(observation *o) GRAIL_MUST_CHECK;
/** What adds to an observation made by observation_init_input, which is borrowed. Without a part
 * nothing is held out, and o->held has the room for a chunk. */
visitor observation_input_visitor(observation *o);

#endif
