/* When blocks are healed: in the walk where they take their narrow shapes there, and in a pass of
 * its own through the narrowed network otherwise. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_H
#define GRAIL_PIPELINE_NETWORK_HEAL_H

#include "pipeline/network/network.h"

/** Whether the walk heals every block, or group of blocks, before what is behind it is narrowed. */
bool heals_in_walk(const compression_request *request);

/** Puts the sample streams of a finished network before node 0, and gives every parameter its
 * narrow shape. */
grail_status heal_prepare(calibration_network *network) GRAIL_MUST_CHECK;

/** Heals all blocks of a network that is finished, from the first to the last, if blocks are to be
 * healed and the walk did not. Its parameters take their narrow shapes; the sample streams end
 * behind the last block. */
grail_status heal_blocks_after_walk(calibration_network *network) GRAIL_MUST_CHECK;

#endif
