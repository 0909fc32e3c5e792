/* Trains a block, or neighbouring ones together, so that the output on the narrowed network's
 * sample stream comes closer to the dense network's stream behind them. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H
#define GRAIL_PIPELINE_NETWORK_HEAL_BLOCK_H

#include "pipeline/network/heal_training.h"

/** A value behind the blocks and the dense network's that it should equal; of a cut stream, in the
 * form that a reducer gives units of so many features. */
typedef struct heal_goal {
    int value, dense;
    const grail_reducer *reducer; /* NULL: as it is; borrowed */
    int64_t features;
} heal_goal;

/** Blocks that are trained together, and for how long. */
typedef struct healed_blocks {
    int first, last;
    const heal_goal *goals; /* [goal_count], borrowed */
    int goal_count;
    double begun, seconds; /* from `begun` on */
} healed_blocks;

/** The blocks have their narrow shapes; the current sample stream waits before the first one, and
 * the dense one has the goals. The blocks are never left worse on held-out samples than they were.
 * Nothing is done where there is no goal, or nothing to be trained. */
grail_status heal_block_train(const heal_setting *s, const healed_blocks *blocks) GRAIL_MUST_CHECK;

#endif
