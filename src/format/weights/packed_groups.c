#include "format/weights/packed_groups.h"

#include "base/bytes.h"
#include "tensor/groups.h"
#include "tensor/half.h"

#include <string.h>

enum { CODES, SCALE, SHAPE, WORD_BITS = 32 };

const char *const packed_groups_suffixes[PACKED_PARTS] = {"_packed", "_scale", "_shape"};

static grail_status wrong(const tensor_view *part, const char *wanted)
{
    char text[128];
    return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is %s of shape %s, expected %s", part->name,
                     grail_dtype_name(part->dtype),
                     shape_text(part->rank, part->shape, text, sizeof text), wanted);
}

grail_status packed_groups_describe(const tensor_view parts[PACKED_PARTS], tensor_view *out)
{
    const tensor_view *stated = &parts[SHAPE];
    const tensor_view *codes = &parts[CODES];
    const tensor_view *scale = &parts[SCALE];
    int64_t *shape = out->shape; /* O and I */
    int64_t group = LARGEST_GROUP;
    int bits = 4;
    if (stated->dtype != GRAIL_DTYPE_I64 || stated->rank != 1 || stated->shape[0] != 2) {
        return wrong(stated, "two I64, rows and columns of the matrix");
    }
    for (int d = 0; d < 2; d++) {
        shape[d] = (int64_t)load_little((const unsigned char *)stated->data + 8 * d, 8);
        if (shape[d] <= 0) {
            return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' says that dimension %d is %lld",
                             stated->name, d, (long long)shape[d]);
        }
    }
    if (codes->dtype != GRAIL_DTYPE_I32 || codes->rank != 2 || codes->shape[0] != shape[0]) {
        return wrong(codes, "I32 with as many rows as its _shape says");
    }
    while (bits <= 8 && codes->shape[1] != shape[1] / WORD_BITS * bits) {
        bits += 4;
    }
    if (shape[1] % WORD_BITS != 0 || bits > 8) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "tensor '%s' has %lld words for rows of %lld weights; grail reads 4 or 8 "
                         "bits each, of a multiple of %d weights",
                         codes->name, (long long)codes->shape[1], (long long)shape[1], WORD_BITS);
    }
    if (!dtype_is_weight(scale->dtype) || scale->rank != 2 || scale->shape[0] != shape[0] ||
        scale->shape[1] <= 0 || shape[1] % scale->shape[1] != 0) {
        return wrong(scale, "F32, F16 or BF16 of one scale for each group of a row");
    }
    const int64_t scaled = shape[1] / scale->shape[1];
    while (group >= SMALLEST_GROUP && scaled % group != 0) {
        group /= 2;
    }
    if (group < SMALLEST_GROUP) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "tensor '%s' has a scale for each %lld weights; grail reads multiples of %d",
            scale->name, (long long)scaled, SMALLEST_GROUP);
    }
    out->rank = 2;
    return group_dtype(bits, group, &out->dtype) &&
                   shape_bytes(out->dtype, out->rank, shape, &out->bytes)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is too large to address", codes->name);
}

static float scale_at(const tensor_view *scale, int64_t i)
{
    const unsigned char *scales = scale->data;
    switch (scale->dtype) {
    case GRAIL_DTYPE_F16:
        return float_of(f32_of_f16((uint32_t)load_little(scales + 2 * i, 2)));
    case GRAIL_DTYPE_BF16:
        return float_of(f32_of_bf16((uint32_t)load_little(scales + 2 * i, 2)));
    default:
        return float_of((uint32_t)load_little(scales + 4 * i, 4));
    }
}

static size_t code_bytes(grail_dtype dtype)
{
    return (size_t)(dtype_block(dtype) * group_bits(dtype) / 8);
}

void packed_groups_join(const tensor_view parts[PACKED_PARTS], const tensor_view *whole,
                        void *blocks)
{
    const size_t codes = code_bytes(whole->dtype);
    const int64_t in_row = whole->shape[1] / dtype_block(whole->dtype);
    const int64_t repeats = in_row / parts[SCALE].shape[1];
    const unsigned char *from = parts[CODES].data;
    unsigned char *to = blocks;
    for (int64_t b = 0; b < whole->shape[0] * in_row; b++) {
        group_put_head(to, scale_at(&parts[SCALE], b / repeats), parts[SCALE].dtype);
        memcpy(to + GROUP_HEAD, from, codes);
        from += codes;
        to += GROUP_HEAD + codes;
    }
}

void packed_groups_parts(const tensor_view *whole, grail_dtype scale,
                         tensor_view parts[PACKED_PARTS])
{
    const int bits = group_bits(whole->dtype);
    parts[CODES] = (tensor_view){.dtype = GRAIL_DTYPE_I32,
                                 .rank = 2,
                                 .shape = {whole->shape[0], whole->shape[1] * bits / WORD_BITS}};
    parts[SCALE] =
        (tensor_view){.dtype = scale,
                      .rank = 2,
                      .shape = {whole->shape[0], whole->shape[1] / dtype_block(whole->dtype)}};
    parts[SHAPE] = (tensor_view){.dtype = GRAIL_DTYPE_I64, .rank = 1, .shape = {2}};
    for (int i = 0; i < PACKED_PARTS; i++) {
        (void)shape_bytes(parts[i].dtype, parts[i].rank, parts[i].shape, &parts[i].bytes);
    }
}

grail_status packed_groups_split(const tensor_view *whole, const void *blocks,
                                 const tensor_view parts[PACKED_PARTS],
                                 void *const data[PACKED_PARTS])
{
    const size_t codes = code_bytes(whole->dtype);
    const size_t scale_bytes = dtype_bits(parts[SCALE].dtype) / 8;
    const unsigned char *from = blocks;
    unsigned char *words = data[CODES];
    unsigned char *scales = data[SCALE];
    for (int64_t b = 0; b < whole->shape[0] * parts[SCALE].shape[1]; b++) {
        const float scale = group_scale(from);
        CHECK(convert_from_f32(parts[SCALE].dtype, &scale, 1, scales));
        memcpy(words, from + GROUP_HEAD, codes);
        from += GROUP_HEAD + codes;
        words += codes;
        scales += scale_bytes;
    }
    for (int d = 0; d < 2; d++) {
        store_little((unsigned char *)data[SHAPE] + 8 * d, 8, (uint64_t)whole->shape[d]);
    }
    return GRAIL_OK;
}
