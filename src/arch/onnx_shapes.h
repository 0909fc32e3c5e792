/* Numbers that nodes compute from sizes: those of Reshape targets, bounds and scales. The number of
 * samples is not known; all other sizes are, where the file declares that of its images. */
#ifndef GRAIL_ARCH_ONNX_SHAPES_H
#define GRAIL_ARCH_ONNX_SHAPES_H

#include "arch/onnx_numbers.h"

/** Whether the node at hand computes numbers from sizes or from constants alone. */
bool onnx_computes_numbers(const onnx_reading *r);
/** Computes them. */
grail_status onnx_read_numbers(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
