/* Heals one block: its parameters are trained so that its output on the narrowed network's stream
 * comes closer to the dense network's stream behind it. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H

#include "pipeline/network/network.h"

/** Whether the share of the time that the block has is longer than the set-up of the one before
 * took, if that had time for nothing else. False behind the last block. */
bool heal_block_has_time(const calibration_network *network, int block);

/** The block has its narrow shapes, and the current sample stream waits at its begin. The dense
 * sample stream moves to its end. The block is never left worse on held-out samples than it was. It
 * has an even share of the time that is left for blocks; where that does not suffice it stays as it
 * is, and the sample streams where they are. */
grail_status heal_block(calibration_network *network, int block) GRAIL_MUST_CHECK;

#endif
