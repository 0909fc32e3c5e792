/* Which tensors of the checkpoint each block writes, which parameters of the graph each tensor
 * holds, and the shape that it gets. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H
#define GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H

#include "pipeline/request/request.h"

typedef struct tensor_map {
    int *parameter_block; /* [parameter_count]: block that writes it, GRAPH_NONE outside */
    int *first_parameter; /* [tensors of the checkpoint]: GRAPH_NONE where the graph reads none */
    int *next_part;       /* [parameter_count]: next parameter of the same tensor, by rows */
} tensor_map;

/** To be followed by tensor_map_fini, even where it fails. */
grail_status tensor_map_init(const compression_request *request, tensor_map *out) GRAIL_MUST_CHECK;
void tensor_map_fini(tensor_map *map); /* works on a zeroed one */

/** The block that writes tensor i, GRAPH_NONE of those outside all blocks. */
int tensor_map_block(const tensor_map *map, int64_t i);

/** The checkpoint's tensors with the shapes of the result; *out is [tensors of the checkpoint],
 * owned. */
grail_status tensor_map_shapes(const tensor_map *map, const compression_request *request,
                               tensor_view **out) GRAIL_MUST_CHECK;

#endif
