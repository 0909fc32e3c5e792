/* Networks that read sequences: values that do not depend on what a sample holds, since no position
 * of a sample is padded. A mask is 1 everywhere, positions count up, and what is computed of them
 * lies between bounds (onnx_bounds), most often equal ones. Also what such values do to others:
 * terms of 0 and factors of 1 leave them as they are. */
#ifndef GRAIL_ARCH_ONNX_BOUNDS_H
#define GRAIL_ARCH_ONNX_BOUNDS_H

#include "arch/onnx_nodes.h"

/** Whether the node at hand reads or makes such a value, or rows of a table by ids. */
bool onnx_reads_bounds(const onnx_reading *r);
grail_status onnx_read_bounds(onnx_reading *r) GRAIL_MUST_CHECK;
/** Whether input i is the same for all elements, and that number; a mask that hides nothing is. */
bool onnx_is_always(const onnx_reading *r, int i, double number);
/** Whether no element of input i is above a number. */
bool onnx_is_at_most(const onnx_reading *r, int i, double number);

#endif
