/* Writes the tensors of a result and records their checksums; reads them back and checks them. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSORS_H
#define GRAIL_PIPELINE_OUTPUT_TENSORS_H

#include "pipeline/network/network.h"
#include "pipeline/output/tensor_map.h"

/* What is known of the tensors of a result before it is computed. */
typedef struct result_tensors {
    tensor_map map;
    tensor_view *shapes; /* of the result's tensors, owned */
    json_t *non_finite;  /* names of tensors that hold NaN or infinity and are copied; owned */
} result_tensors;

/** Looks at all tensors of the model that the result will have, of any dtype, since those that are
 * copied are never converted. One that holds NaN or infinity is GRAIL_ERROR_NUMERIC; with `keep` it
 * is only named. The caller calls result_tensors_fini, even after a failure. */
grail_status result_tensors_init(const compression_request *request, bool keep,
                                 result_tensors *out) GRAIL_MUST_CHECK;
void result_tensors_fini(result_tensors *tensors); /* works on a zeroed one */

/** Takes a tensor, whose name is that in the model, as the result holds it: of a matrix of groups
 * the blocks. */
typedef grail_status (*tensor_taker)(void *user, const char *name, const void *data, size_t bytes);

/** Gives tensor i of the model, which is not left out. One that a site changed comes from the
 * network, others are as they are stored. */
grail_status tensors_give(const calibration_network *network, const tensor_map *map, int64_t i,
                          tensor_taker take, void *user) GRAIL_MUST_CHECK;

/** Writes the tensors of one block, or those outside all blocks for GRAPH_NONE. checksums is an
 * object and gets {name: CRC-32}. */
grail_status tensors_write(const calibration_network *network, const tensor_map *map, int block,
                           checkpoint_writer *writer, json_t *checksums) GRAIL_MUST_CHECK;

/** Reads back the tensors that `checksums` names. One that does not match is GRAIL_ERROR_FORMAT;
 * the message names it and its file in `place`. */
grail_status tensors_verify(const compression_request *request, const tensor_view shapes[],
                            const checkpoint_writer *writer, const json_t *checksums,
                            const char *place) GRAIL_MUST_CHECK;

/** Reads back a parameter in f32, in its narrow shape; *out is owned. The sites that cut its tensor
 * are decided. */
grail_status tensors_read_parameter(const calibration_network *network, const tensor_map *map,
                                    const checkpoint_writer *writer, int parameter, int64_t *count,
                                    float **out) GRAIL_MUST_CHECK;

#endif
