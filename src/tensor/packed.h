/* Tensors that are packed as MXFP4: elements of 4 bits, with a common power of two for 32 of them.
 *
 * A view of shape [matrices, in, out] with `scales` is stored the other way round: data has the
 * codes [matrices, out, in], two in a byte, the first in its lower half, and scales the exponents
 * [matrices, out, in / 32], a byte each, 127 more than they are. The value is code * 2^exponent
 * with the codes 0, 0.5, 1, 1.5, 2, 3, 4, 6 and, from 8 on, the same below 0; each is a number of
 * BF16. Source: OCP Microscaling Formats 1.0; convert_moe_packed_tensors of Hugging Face
 * transformers. */
#ifndef GRAIL_TENSOR_PACKED_H
#define GRAIL_TENSOR_PACKED_H

#include "tensor/tensor.h"

enum { PACKED_BLOCK = 32 }; /* elements with one exponent */

bool tensor_is_packed(const tensor_view *tensor);

/** out[count] <- elements of a packed view from element `first` on, as f32; infinite where the
 * exponent is beyond f32. */
void packed_to_f32(const tensor_view *tensor, int64_t first, int64_t count, float *out);

#endif
