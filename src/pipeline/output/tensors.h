/* The narrow tensors of a block, as they are stored. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSORS_H
#define GRAIL_PIPELINE_OUTPUT_TENSORS_H

#include "pipeline/network/network.h"
#include "pipeline/output/tensor_map.h"

/** Writes the tensors of one block, or with GRAPH_NONE those outside all blocks; they are on disk
 * when it returns. What was not touched is copied byte for byte. */
grail_status tensors_write_block(const tensor_map *map, const calibration_network *network,
                                 int block, checkpoint_writer *writer) GRAIL_MUST_CHECK;

#endif
