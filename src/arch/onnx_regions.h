/* Nodes of an ONNX file that no row reads. Each value that they make and that a row reads is made
 * by a node of the graph of the kind OPAQUE, whose region is all that leads to it from values that
 * the graph has. A region's nodes and constants stay as they are in every result.
 *
 * Which nodes these are is found by reading the file until no more are refused: once it is known, a
 * last reading makes the regions. */
#ifndef GRAIL_ARCH_ONNX_REGIONS_H
#define GRAIL_ARCH_ONNX_REGIONS_H

#include "arch/onnx_nodes.h"
#include "arch/onnx_places.h"

/** *out is owned: onnx_barriers_free. `file` lies at `path`; both must outlive it. */
grail_status onnx_barriers_create(const onnx_file *file, const char *path,
                                  onnx_barriers **out) GRAIL_MUST_CHECK;
void onnx_barriers_free(onnx_barriers *b); /* NULL is allowed */

/** Begins a reading, in which the images are the value `input` of the file. */
void onnx_barriers_begin(onnx_reading *r, int64_t input);
/** Ends one: *again says whether the file must be read once more. */
grail_status onnx_barriers_end(onnx_reading *r, bool *again) GRAIL_MUST_CHECK;

/** Where the channels of a value are, as what reads it tells. */
onnx_place onnx_place_of(const onnx_reading *r, int64_t value);
/** Whether node i is known to be read by no row. */
bool onnx_is_opaque(const onnx_reading *r, int64_t i);
/** Takes a node out of those that rows read, which was refused just now. */
grail_status onnx_refuse_node(onnx_reading *r, int64_t i) GRAIL_MUST_CHECK;
/** Gives the outputs of the node at hand, which is opaque. */
grail_status onnx_read_opaque(onnx_reading *r) GRAIL_MUST_CHECK;
/** The values of the graph, made by rows, that all that leads to the node at hand reads. *values is
 * owned: memory_free. */
grail_status onnx_find_sources(onnx_reading *r, int64_t **values, int64_t *count) GRAIL_MUST_CHECK;
/** The refusal of the first node that no row reads; GRAIL_OK where there is none. */
grail_status onnx_refuse_first(onnx_reading *r) GRAIL_MUST_CHECK;
/** Notes that a row, or the network's output, reads a value. */
void onnx_note_read(onnx_reading *r, int64_t value);

#endif
