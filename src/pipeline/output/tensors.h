/* The tensors of a result: written with their checksums, read back against them. */
#ifndef GRAIL_PIPELINE_OUTPUT_TENSORS_H
#define GRAIL_PIPELINE_OUTPUT_TENSORS_H

#include "pipeline/network/network.h"
#include "pipeline/output/tensor_map.h"

/** Writes the tensors of one block, or with GRAPH_NONE those outside all blocks: what a site
 * touched from the network, the rest byte for byte. checksums is an object and gets {name: CRC-32}.
 */
grail_status tensors_write(const calibration_network *network, const tensor_map *map, int block,
                           checkpoint_writer *writer, json_t *checksums) GRAIL_MUST_CHECK;

/** Reads the tensors that `checksums` names back; one that differs is GRAIL_ERROR_FORMAT that names
 * it and the file of `place`. */
grail_status tensors_verify(const compression_request *request, const tensor_view shapes[],
                            const checkpoint_writer *writer, const json_t *checksums,
                            const char *place) GRAIL_MUST_CHECK;

/** A parameter that was written, f32 of its narrow shape; *out is owned. Not of tensors that hold
 * more than this parameter, or hold it transposed. */
grail_status tensors_read_parameter(const compression_request *request,
                                    const checkpoint_writer *writer, int parameter,
                                    float **out) GRAIL_MUST_CHECK;

#endif
