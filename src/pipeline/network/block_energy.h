/* The energy of what leaves a block, which errors of cuts in it are relative to: the squares of all
 * values that later nodes read, or of the network's output. */
#ifndef GRAIL_PIPELINE_NETWORK_BLOCK_ENERGY_H
#define GRAIL_PIPELINE_NETWORK_BLOCK_ENERGY_H

#include "pipeline/network/pass.h"

typedef struct block_energy {
    int end; /* the node behind the block */
    double energy;
    int64_t batches;
    double part; /* of the chunk whose batches are being added */
    int64_t part_batches;
} block_energy;

/** What adds to it at the end of a pass to e->end; `e` is borrowed. */
visitor block_energy_visitor(block_energy *e);

#endif
