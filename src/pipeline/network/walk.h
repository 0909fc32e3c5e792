/* The walk over a block's nodes: at the first producer of a site its reducer is decided, at every
 * consumer the fit is made and merged, at every BatchNorm the statistics are repaired where that is
 * asked for; then the sample streams go on. */
#ifndef GRAIL_PIPELINE_NETWORK_WALK_H
#define GRAIL_PIPELINE_NETWORK_WALK_H

#include "pipeline/network/recorded.h"

/** Observes, reduces, compensates and advances one block (GRAPH_NONE: what precedes block 0;
 * block_count: what follows). `recorded` is NULL, or holds the narrow tensors of a block that is
 * replayed: its decisions are in the results then. */
grail_status compress_block(calibration_network *network, int block,
                            const recorded_parameters *recorded) GRAIL_MUST_CHECK;
/** REPAIR of all BatchNorms, where the plan asks for it, in a walk of its own after an open loop.
 */
grail_status repair_network(calibration_network *network) GRAIL_MUST_CHECK;

#endif
