/* Products with matrices of weights, which are Linears. */
#ifndef GRAIL_ARCH_ONNX_PRODUCTS_H
#define GRAIL_ARCH_ONNX_PRODUCTS_H

#include "arch/onnx_nodes.h"

/** Takes a vector that an Add adds to what a Linear makes for its bias; *taken false where it adds
 * something else, or the Linear has one. */
grail_status onnx_take_bias(onnx_reading *r, bool *taken) GRAIL_MUST_CHECK;
/** *out <- a Linear of the list, of which what it makes is known. */
grail_status onnx_add_linear(onnx_reading *r, const onnx_linear *linear, int *out) GRAIL_MUST_CHECK;
/** *out <- rows [first, first + count) of a Linear, as one of their own. */
grail_status onnx_part_linear(onnx_reading *r, int linear, int64_t first, int64_t count,
                              int *out) GRAIL_MUST_CHECK;
/** The same of what mixes positions: those that it makes. */
grail_status onnx_part_positions(onnx_reading *r, int linear, int64_t first, int64_t count,
                                 int *out) GRAIL_MUST_CHECK;
/** *out <- rows [first, first + run) of each of a Linear's heads, `stride` rows apart. */
grail_status onnx_part_heads(onnx_reading *r, int linear, int64_t heads, int64_t stride,
                             int64_t first, int64_t run, int *out) GRAIL_MUST_CHECK;

#endif
