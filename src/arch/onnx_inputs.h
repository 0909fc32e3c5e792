/* The inputs of an ONNX file that are not one image: integers for each position of a sequence, or
 * several values of any kind side by side. */
#ifndef GRAIL_ARCH_ONNX_INPUTS_H
#define GRAIL_ARCH_ONNX_INPUTS_H

#include "arch/onnx_nodes.h"

/** Whether the file reads sequences of integers, [N, T] each. */
bool onnx_reads_ids(const onnx_reading *r);
/** Begins a graph of such a network. */
grail_status onnx_read_ids(onnx_reading *r) GRAIL_MUST_CHECK;
/** Whether the file reads several values. */
bool onnx_reads_several(const onnx_reading *r);
/** Begins a graph of such a network: a sample holds all of them side by side. */
grail_status onnx_read_several(onnx_reading *r) GRAIL_MUST_CHECK;
/** What the file calls an open size of its inputs, but for their samples; NULL: it has no such
 * name.
 */
const char *onnx_find_open_size(const onnx_file *f, const char *name);
/** Appends all these names to a message, each once, or "none". */
void onnx_append_open_sizes(const onnx_file *f);
/** Settles, once all nodes are read, how several inputs are one id, and how many positions a sample
 * may have. */
grail_status onnx_settle_ids(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
