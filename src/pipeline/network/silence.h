/* Dropped sublayers in the calibration network: their consumers give zeros, so that the residual
 * stream passes them by. */
#ifndef GRAIL_PIPELINE_NETWORK_SILENCE_H
#define GRAIL_PIPELINE_NETWORK_SILENCE_H

#include "pipeline/network/network.h"

/** Sets the weights and biases of the consumers of the dropped sublayers in a block to zero. */
grail_status silence_block(calibration_network *network, int block) GRAIL_MUST_CHECK;

/** The same for all blocks. */
grail_status silence_dropped(calibration_network *network) GRAIL_MUST_CHECK;

#endif
