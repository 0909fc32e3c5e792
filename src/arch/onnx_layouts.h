/* The nodes that change what the dimensions of a value of ONNX go through: most are no node of the
 * graph. */
#ifndef GRAIL_ARCH_ONNX_LAYOUTS_H
#define GRAIL_ARCH_ONNX_LAYOUTS_H

#include "arch/onnx_letters.h"

/** *out <- the sizes of input 0; owned: memory_free(out->items). */
grail_status onnx_sizes_of(onnx_reading *r, onnx_numbers *out) GRAIL_MUST_CHECK;

/** Each gives output 0 of the node at hand, whose input 0 is a value. */
grail_status onnx_lay_reshaped(onnx_reading *r) GRAIL_MUST_CHECK;
grail_status onnx_lay_transposed(onnx_reading *r, int count,
                                 const int64_t order[]) GRAIL_MUST_CHECK;
grail_status onnx_lay_flat(onnx_reading *r) GRAIL_MUST_CHECK;
grail_status onnx_lay_squeezed(onnx_reading *r, int count, const int64_t axes[]) GRAIL_MUST_CHECK;
/** Heads of keys and values are repeated for those of queries that share them. */
grail_status onnx_lay_repeated(onnx_reading *r) GRAIL_MUST_CHECK;
grail_status onnx_lay_unsqueezed(onnx_reading *r, int count, const int64_t axes[]) GRAIL_MUST_CHECK;

#endif
