/* Indices that go through all channels of all samples in their order: with them an exporter writes
 * a view of a value as a Gather, which takes what is there. They begin as a Range over the samples.
 */
#ifndef GRAIL_ARCH_ONNX_INDICES_H
#define GRAIL_ARCH_ONNX_INDICES_H

#include "arch/onnx_nodes.h"

/** Whether the node at hand reads such indices. */
bool onnx_reads_indices(const onnx_reading *r);
/** Gives what is known of its output, where it is a Mul, Add, Unsqueeze or Gather. */
grail_status onnx_read_indices(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
