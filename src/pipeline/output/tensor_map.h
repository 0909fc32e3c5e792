/* Which parameters the tensors of a checkpoint hold, when each is written, and how large. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H
#define GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H

#include "pipeline/request/request.h"

typedef struct tensor_map {
    int *parameter; /* [checkpoint_count]: the first of each tensor, GRAPH_NONE outside the graph */
    int *next_part; /* [parameter_count]: the next one in the same tensor, in the order of rows */
    int *block;     /* [checkpoint_count]: that writes the tensor, GRAPH_NONE outside all blocks */
} tensor_map;

/** tensor_map_fini frees. */
grail_status tensor_map_init(const grail_model *model, tensor_map *out) GRAIL_MUST_CHECK;
void tensor_map_fini(tensor_map *map); /* works on a zeroed one */

/** The tensors of the result, in the order of the checkpoint's: *out is [checkpoint_count], owned;
 * names and data are borrowed from the checkpoint. */
grail_status tensor_map_views(const tensor_map *map, const compression_request *request,
                              tensor_view **out) GRAIL_MUST_CHECK;

#endif
