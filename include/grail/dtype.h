#ifndef GRAIL_DTYPE_H
#define GRAIL_DTYPE_H

#include <grail/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Element types of stored tensors: enumerator, name in safetensors files, bits per element.
 * The order is the order of the reference safetensors writer (ascending alignment).
 * Source: huggingface/safetensors, safetensors/src/tensor.rs.
 */
#define GRAIL_DTYPE_LIST(X)                                                                        \
    X(GRAIL_DTYPE_BOOL, "BOOL", 8)                                                                 \
    X(GRAIL_DTYPE_F4, "F4", 4)                                                                     \
    X(GRAIL_DTYPE_F6_E2M3, "F6_E2M3", 6)                                                           \
    X(GRAIL_DTYPE_F6_E3M2, "F6_E3M2", 6)                                                           \
    X(GRAIL_DTYPE_U8, "U8", 8)                                                                     \
    X(GRAIL_DTYPE_I8, "I8", 8)                                                                     \
    X(GRAIL_DTYPE_F8_E5M2, "F8_E5M2", 8)                                                           \
    X(GRAIL_DTYPE_F8_E4M3, "F8_E4M3", 8)                                                           \
    X(GRAIL_DTYPE_F8_E8M0, "F8_E8M0", 8)                                                           \
    X(GRAIL_DTYPE_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                   \
    X(GRAIL_DTYPE_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                   \
    X(GRAIL_DTYPE_I16, "I16", 16)                                                                  \
    X(GRAIL_DTYPE_U16, "U16", 16)                                                                  \
    X(GRAIL_DTYPE_F16, "F16", 16)                                                                  \
    X(GRAIL_DTYPE_BF16, "BF16", 16)                                                                \
    X(GRAIL_DTYPE_I32, "I32", 32)                                                                  \
    X(GRAIL_DTYPE_U32, "U32", 32)                                                                  \
    X(GRAIL_DTYPE_F32, "F32", 32)                                                                  \
    X(GRAIL_DTYPE_C64, "C64", 64)                                                                  \
    X(GRAIL_DTYPE_F64, "F64", 64)                                                                  \
    X(GRAIL_DTYPE_I64, "I64", 64)                                                                  \
    X(GRAIL_DTYPE_U64, "U64", 64)

/**
 * Types that store elements in blocks: enumerator, name, elements and bytes of a block. The first
 * are those of GGUF files (source: ggml, src/ggml-common.h). W4 and W8 are groups of integers with
 * one scale, which compressed-tensors (pack-quantized) keeps in two tensors (tensor/groups.h).
 */
#define GRAIL_BLOCK_DTYPE_LIST(X)                                                                  \
    X(GRAIL_DTYPE_Q4_0, "Q4_0", 32, 18)                                                            \
    X(GRAIL_DTYPE_Q4_1, "Q4_1", 32, 20)                                                            \
    X(GRAIL_DTYPE_Q5_0, "Q5_0", 32, 22)                                                            \
    X(GRAIL_DTYPE_Q5_1, "Q5_1", 32, 24)                                                            \
    X(GRAIL_DTYPE_Q8_0, "Q8_0", 32, 34)                                                            \
    X(GRAIL_DTYPE_Q4_K, "Q4_K", 256, 144)                                                          \
    X(GRAIL_DTYPE_Q5_K, "Q5_K", 256, 176)                                                          \
    X(GRAIL_DTYPE_Q6_K, "Q6_K", 256, 210)                                                          \
    X(GRAIL_DTYPE_W4_G32, "W4_G32", 32, 24)                                                        \
    X(GRAIL_DTYPE_W4_G64, "W4_G64", 64, 40)                                                        \
    X(GRAIL_DTYPE_W4_G128, "W4_G128", 128, 72)                                                     \
    X(GRAIL_DTYPE_W8_G32, "W8_G32", 32, 40)                                                        \
    X(GRAIL_DTYPE_W8_G64, "W8_G64", 64, 72)                                                        \
    X(GRAIL_DTYPE_W8_G128, "W8_G128", 128, 136)

typedef enum grail_dtype {
#define GRAIL_DTYPE_ENUM(code, name, bits) code,
    GRAIL_DTYPE_LIST(GRAIL_DTYPE_ENUM)
#undef GRAIL_DTYPE_ENUM
#define GRAIL_DTYPE_ENUM(code, name, elements, bytes) code,
        GRAIL_BLOCK_DTYPE_LIST(GRAIL_DTYPE_ENUM)
#undef GRAIL_DTYPE_ENUM
            GRAIL_DTYPE_COUNT
} grail_dtype;

/** Name as in safetensors files, such as "BF16", or in GGUF files, such as "Q4_K". Never
 * NULL. */
GRAIL_API const char *grail_dtype_name(grail_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
