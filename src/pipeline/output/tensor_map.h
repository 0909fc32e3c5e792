/* Which tensors of the checkpoint each block writes, which parameters of the graph each tensor
 * holds, and which shape it has in the result. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H
#define GRAIL_PIPELINE_OUTPUT_TENSOR_MAP_H

#include "pipeline/request/request.h"

typedef struct tensor_map {
    int *parameter_block; /* [parameter_count]: block that writes it, or GRAPH_NONE */
    int *first_parameter; /* [tensors of the checkpoint]: GRAPH_NONE if the graph reads none */
    int *next_part;       /* [parameter_count]: next parameter of the same tensor */
    char **names; /* [tensors of the checkpoint]: those in the result; NULL: left out; owned */
    int64_t tensor_count;
} tensor_map;

/** The caller calls tensor_map_fini afterwards, even after a failure. */
grail_status tensor_map_init(const compression_request *request, tensor_map *out) GRAIL_MUST_CHECK;
void tensor_map_fini(tensor_map *map); /* works on a zeroed one */

/** The block that writes tensor i; GRAPH_NONE outside all blocks. */
int tensor_map_block(const tensor_map *map, int64_t i);

/** How many parameters of the graph tensor i holds. */
int tensor_map_count(const tensor_map *map, int64_t i);
/** These parameters and how much of each is left, without what each row and column stands for.
 * *out is [tensor_map_count], owned. */
grail_status tensor_map_pieces(const tensor_map *map, const compression_request *request, int64_t i,
                               storage_piece **out) GRAIL_MUST_CHECK;

/** The checkpoint's tensors with the shapes and names of the result; one without a name is left
 * out. *out is [tensors of the checkpoint], owned even after a failure; the names belong to the
 * map. */
grail_status tensor_map_shapes(const tensor_map *map, const compression_request *request,
                               tensor_view **out) GRAIL_MUST_CHECK;

#endif
