/* Quantised weights of compressed-tensors in format pack-quantized, as tensors of groups
 * (tensor/groups.h). Source: compressed-tensors, compressors/pack_quantized. A matrix NAME[O, I] of
 * `bits` bits is stored as
 *
 *   NAME_packed  I32 [O, I * bits / 32]  the codes of a row, from the lowest bits on
 *   NAME_scale   F32, F16, BF16 [O, G]   one scale for each I / G elements of a row
 *   NAME_shape   I64 [2]                 O, I */
#ifndef GRAIL_FORMAT_WEIGHTS_PACKED_GROUPS_H
#define GRAIL_FORMAT_WEIGHTS_PACKED_GROUPS_H

#include "tensor/tensor.h"

enum { PACKED_PARTS = 3 };

/** In the order of packed_groups_parts. */
extern const char *const packed_groups_suffixes[PACKED_PARTS];

/** *out <- dtype, shape and bytes of the matrix that three tensors hold, without data. Groups are
 * 128, 64 or 32 elements; larger ones are read as several of the same scale. Messages name the
 * tensor that is wrong. */
grail_status packed_groups_describe(const tensor_view parts[PACKED_PARTS],
                                    tensor_view *out) GRAIL_MUST_CHECK;

/** blocks[bytes of `whole`] <- the matrix. `parts` have data, `whole` is as packed_groups_describe
 * says.
 */
void packed_groups_join(const tensor_view parts[PACKED_PARTS], const tensor_view *whole,
                        void *blocks);

/** dtype and shape of the three tensors of a matrix of groups, whose scales are stored in
 * `scale`. Names and data are not set. */
void packed_groups_parts(const tensor_view *whole, grail_dtype scale,
                         tensor_view parts[PACKED_PARTS]);

/** data[i], of the bytes of parts[i] <- what each of them holds. */
grail_status packed_groups_split(const tensor_view *whole, const void *blocks,
                                 const tensor_view parts[PACKED_PARTS],
                                 void *const data[PACKED_PARTS]) GRAIL_MUST_CHECK;

#endif
