/* Tensor types that store elements in blocks with common factors. Layouts: ggml, src/ggml-common.h;
 * the values are those of gguf-py's dequantize, bit for bit. */
#ifndef GRAIL_TENSOR_BLOCKS_H
#define GRAIL_TENSOR_BLOCKS_H

#include "tensor/tensor.h"

enum { LARGEST_BLOCK = 256 }; /* elements */

/** out[blocks * dtype_block(dtype)] <- the values of so many blocks at `source` (any alignment). */
void blocks_to_f32(grail_dtype dtype, const void *source, int64_t blocks, float *out);

#endif
