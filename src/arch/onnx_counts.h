/* The integers of an ONNX file that count channels, in a narrowed network. */
#ifndef GRAIL_ARCH_ONNX_COUNTS_H
#define GRAIL_ARCH_ONNX_COUNTS_H

#include "arch/onnx_nodes.h"
#include "format/onnx/onnx_weights.h"

/** Adds to the list those of the dense network that was read, as the narrowed one wants them;
 * *differ: whether any does. What would have to differ for two nodes, or is computed from
 * numbers that do not follow, is GRAIL_ERROR_UNSUPPORTED by the node's name. */
grail_status onnx_set_counts(onnx_reading *r, const graph *narrowed, bool *differ,
                             onnx_integer_list *list) GRAIL_MUST_CHECK;

/** Pins channels of r->g that a number would have to follow which the nodes compute from others:
 * those that it counts, and those that it is computed from. */
grail_status onnx_pin_computed(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
