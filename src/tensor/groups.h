/* Groups of integers with one scale, 4 or 8 bits each: the blocks of GRAIL_DTYPE_W4_* and W8_*.
 *
 *   f32 scale, u32 rounding, then the codes: that of element j is q + 2^(bits - 1), from the lowest
 *   bits of the first byte on
 *
 * An element is scale * q, rounded to F16 or BF16 where the scale was stored so, as
 * compressed-tensors computes it (quantization/lifecycle/forward.py, dequantize). The codes of a
 * row of groups are those of its row of weight_packed. */
#ifndef GRAIL_TENSOR_GROUPS_H
#define GRAIL_TENSOR_GROUPS_H

#include "tensor/quantize.h"

enum {
    GROUP_HEAD = 8, /* bytes before the codes */
    LARGEST_GROUP = 128,
    SMALLEST_GROUP = 32 /* elements */
};

/** 4 or 8; 0 for types that are not such groups. */
int group_bits(grail_dtype dtype);

/** The type with so many bits and elements in a group; false when there is none. */
bool group_dtype(int bits, int64_t elements, grail_dtype *out);

/** Writes the head of a block: its scale, and the dtype (F32, F16, BF16) that elements are rounded
 * to. */
void group_put_head(void *block, float scale, grail_dtype rounding);
float group_scale(const void *block);
/** The nearest scale that blocks may have, never below 0. */
void group_put_scale(void *block, float scale);

/** One block, likewise for blocks_to_f32, blocks_from_f32, block_read_grid and block_put. The scale
 * of write_group is that of compressed-tensors, the largest magnitude / (2^(bits - 1) - 0.5),
 * rounded to BF16 and at least 2^-17, so that F16 holds it, too. */
void group_read(grail_dtype dtype, const unsigned char *block, float *out);
void group_write(grail_dtype dtype, const float *values, unsigned char *block);
void group_read_grid(grail_dtype dtype, const unsigned char *block, block_grid *out);
void group_put(grail_dtype dtype, unsigned char *block, int j, int q);

#endif
