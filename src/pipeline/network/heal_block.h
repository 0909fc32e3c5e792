/* Heals a block, or neighbouring ones together: their parameters are trained so that the output on
 * the narrowed network's stream comes closer to the dense network's stream behind them. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H

#include "pipeline/network/network.h"

/** Whether the share of the time that the group of blocks which begins with `block` has is longer
 * than the set-up of the one before took, if that had time for nothing else. False behind the last
 * block. */
bool heal_block_has_time(const calibration_network *network, int block);

/** The blocks have their narrow shapes, and the current sample stream waits at the begin of the
 * first one, or heal_wait was called there. The dense sample stream moves to the end of the last
 * one. The blocks are never left worse on held-out samples than they were. They have an even share
 * of the time that is left for blocks; where that does not suffice they stay as they are, and the
 * sample streams where they are. */
grail_status heal_blocks(calibration_network *network, int first, int last) GRAIL_MUST_CHECK;

/** Keeps the current sample stream for heal_blocks, where it waits at the begin of the first of
 * several blocks that are healed together; it may then move on. */
grail_status heal_wait(calibration_network *network, int first) GRAIL_MUST_CHECK;

#endif
