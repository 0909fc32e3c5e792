/* Writes the tensors of a result and records their checksums; reads them back and checks them. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSORS_H
#define GRAIL_PIPELINE_OUTPUT_TENSORS_H

#include "pipeline/network/network.h"
#include "pipeline/output/tensor_map.h"

/** Looks at all tensors of the model that the result will have, of any dtype, since those that are
 * copied are never converted. One that holds NaN or infinity is GRAIL_ERROR_NUMERIC; with `keep` it
 * is only named in *out, an array of names, owned even after a failure. */
grail_status tensors_find_non_finite(const compression_request *request, const tensor_map *map,
                                     bool keep, json_t **out) GRAIL_MUST_CHECK;

/** Writes the tensors of one block, or those outside all blocks for GRAPH_NONE. Tensors that a site
 * changed come from the network, the others are copied byte for byte. checksums is an object and
 * gets {name: CRC-32}. */
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
