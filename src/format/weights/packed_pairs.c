#include "format/weights/packed_pairs.h"

#include "tensor/packed.h"

#include <string.h>

grail_status packed_pair_describe(const tensor_view *blocks, const tensor_view *scales,
                                  tensor_view *out)
{
    enum { BLOCK_BYTES = PACKED_BLOCK / 2, BLOCKS_RANK = 4, SCALES_RANK = 3 };
    char of_blocks[64];
    char of_scales[64];
    if (blocks->rank != BLOCKS_RANK || scales->rank != SCALES_RANK ||
        blocks->shape[3] != BLOCK_BYTES || scales->dtype != GRAIL_DTYPE_U8 ||
        memcmp(blocks->shape, scales->shape, SCALES_RANK * sizeof blocks->shape[0]) != 0) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "tensors '%s' %s and '%s' %s (%s) do not fit each other as weights in MXFP4: "
            "expected [n, out, in / 32, 16] and [n, out, in / 32] (U8)",
            blocks->name, shape_text(blocks->rank, blocks->shape, of_blocks, sizeof of_blocks),
            scales->name, shape_text(scales->rank, scales->shape, of_scales, sizeof of_scales),
            grail_dtype_name(scales->dtype));
    }
    if (blocks->shape[2] > INT64_MAX / PACKED_BLOCK) {
        return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is too large to address", blocks->name);
    }
    out->dtype = GRAIL_DTYPE_F4;
    out->rank = SCALES_RANK;
    out->shape[0] = blocks->shape[0];
    out->shape[1] = blocks->shape[2] * PACKED_BLOCK;
    out->shape[2] = blocks->shape[1];
    out->data = blocks->data;
    out->bytes = blocks->bytes;
    out->scales = scales->data;
    return GRAIL_OK;
}
