/* The energy of what leaves a block, which errors of cuts in it are relative to. */
#ifndef GRAIL_PIPELINE_NETWORK_BLOCK_ENERGY_H
#define GRAIL_PIPELINE_NETWORK_BLOCK_ENERGY_H

#include "exec/execution.h"

/** Adds the squares of all values that nodes from `end` on read, or of the network's output. */
grail_status add_energy_behind(const execution *e, int end, double *energy) GRAIL_MUST_CHECK;

#endif
