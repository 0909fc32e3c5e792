/* The walk over the nodes of a block. At the first producer of a site its reducer is decided; at
 * every consumer the fit is computed and set; at every BatchNorm the statistics are recomputed if
 * the plan asks for it. Then the sample streams advance. */
#ifndef GRAIL_PIPELINE_NETWORK_WALK_H
#define GRAIL_PIPELINE_NETWORK_WALK_H

#include "pipeline/network/network.h"
#include "pipeline/network/recorded.h"

/** Observes, reduces, compensates and advances one block (GRAPH_NONE: the nodes before block 0;
 * block_count: those after the last block). For a block that is replayed, `recorded` holds its
 * narrow tensors, and its decisions are already in the results; otherwise it is NULL. */
grail_status compress_block(calibration_network *network, int block,
                            const recorded_parameters *recorded) GRAIL_MUST_CHECK;
/** Repairs all BatchNorms, if the plan asks for it, after the last fit of an open loop. */
grail_status repair_network(calibration_network *network) GRAIL_MUST_CHECK;

#endif
