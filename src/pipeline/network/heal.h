/* When blocks and the network are healed, and where the sample streams wait meanwhile: blocks in
 * the walk where they take their narrow shapes there, and in a pass of their own through the
 * narrowed network otherwise. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_H
#define GRAIL_PIPELINE_NETWORK_HEAL_H

#include "pipeline/network/heal_training.h"

/** Whether the walk heals every block, or group of blocks, before what is behind it is narrowed. */
bool heals_in_walk(const cutting *cut, const heal_options *options);

/** Whether the share of the time that the group of blocks which begins with `block` has is longer
 * than the set-up of the one before took, if that had time for nothing else. False behind the last
 * block. */
bool heal_block_has_time(const calibration_network *network, int block);

/** Keeps the current sample stream for heal_blocks, where it waits at the begin of the first of
 * several blocks that are healed together; it may then move on. */
grail_status heal_wait(calibration_network *network, int first) GRAIL_MUST_CHECK;

/** The blocks have their narrow shapes, and the current sample stream waits at the begin of the
 * first one, or heal_wait was called there. The dense sample stream moves to the end of the last
 * one. The blocks have an even share of the time that is left for blocks; where that does not
 * suffice they stay as they are, and the sample streams where they are. */
grail_status heal_blocks(calibration_network *network, int first, int last) GRAIL_MUST_CHECK;

/** Heals all blocks of a network that is finished, from the first to the last, if blocks are to be
 * healed and the walk did not. Its parameters take their narrow shapes; the sample streams end
 * behind the last block. */
grail_status heal_blocks_after_walk(calibration_network *network) GRAIL_MUST_CHECK;

/** Heals the whole network, finished or restored, in the time that is left for healing, and until
 * that time of clock_seconds. Its parameters take their narrow shapes; the sample streams end
 * before node 0. */
grail_status heal_network(calibration_network *network, const heal_memory *memory,
                          double until) GRAIL_MUST_CHECK;

#endif
