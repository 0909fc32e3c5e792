/* Heals one block: its parameters are trained so that its output on the narrowed network's stream
 * comes closer to the dense network's stream behind it. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H

#include "pipeline/network/network.h"

/** The block has its narrow shapes, and the current sample stream waits at its begin. The dense
 * sample stream moves to its end. The block is never left worse on held-out samples than it was. */
grail_status heal_block(calibration_network *network, int block) GRAIL_MUST_CHECK;

#endif
