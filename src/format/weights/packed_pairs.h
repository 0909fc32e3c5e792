/* Tensors that lie in two of a checkpoint: NAME_blocks U8 [matrices, out, in / 32, 16] and
 * NAME_scales U8 [matrices, out, in / 32]. They are seen as one, NAME [matrices, in, out], packed
 * as MXFP4 (tensor/packed.h). */
#ifndef GRAIL_FORMAT_WEIGHTS_PACKED_PAIRS_H
#define GRAIL_FORMAT_WEIGHTS_PACKED_PAIRS_H

#include "tensor/tensor.h"

/** *out <- all of the matrix but its name; its data is that of the two. Scales that do not fit the
 * blocks are GRAIL_ERROR_FORMAT; the message names both tensors. */
grail_status packed_pair_describe(const tensor_view *blocks, const tensor_view *scales,
                                  tensor_view *out) GRAIL_MUST_CHECK;

#endif
