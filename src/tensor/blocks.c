/* In a block of 32 the nibble of element j < 16 is the lower half of byte j, that of element j + 16
 * its upper half. In one of 256 each 64 elements have 32 bytes of nibbles: the lower halves are the
 * first 32 elements. */
#include "tensor/blocks.h"

#include "tensor/groups.h"
#include "tensor/half.h"

enum { SMALL = 32, LARGE = 256, SCALES = 12 };

static float half_at(const unsigned char *block)
{
    return float_of(f32_of_f16((uint32_t)block[0] | (uint32_t)block[1] << 8));
}

static int nibble(const unsigned char *bytes, int j)
{
    return j < SMALL / 2 ? bytes[j] & 15 : bytes[j - SMALL / 2] >> 4;
}

/* Bit j of 4 bytes, as bit 4. */
static int fifth_bit(const unsigned char *bytes, int j)
{
    return (bytes[j / 8] >> j % 8 & 1) << 4;
}

/* f16 d, 16 bytes of nibbles: d (q - 8) */
static void read_q4_0(const unsigned char *block, float *out)
{
    const float d = half_at(block);
    for (int j = 0; j < SMALL; j++) {
        out[j] = d * (float)(nibble(block + 2, j) - 8);
    }
}

/* f16 d, f16 m, 16 bytes of nibbles: d q + m */
static void read_q4_1(const unsigned char *block, float *out)
{
    const float d = half_at(block);
    const float m = half_at(block + 2);
    for (int j = 0; j < SMALL; j++) {
        out[j] = d * (float)nibble(block + 4, j) + m;
    }
}

/* f16 d, 4 bytes of fifth bits, 16 bytes of nibbles: d (q - 16) */
static void read_q5_0(const unsigned char *block, float *out)
{
    const float d = half_at(block);
    for (int j = 0; j < SMALL; j++) {
        out[j] = d * (float)((nibble(block + 6, j) | fifth_bit(block + 2, j)) - 16);
    }
}

/* f16 d, f16 m, 4 bytes of fifth bits, 16 bytes of nibbles: d q + m */
static void read_q5_1(const unsigned char *block, float *out)
{
    const float d = half_at(block);
    const float m = half_at(block + 2);
    for (int j = 0; j < SMALL; j++) {
        out[j] = d * (float)(nibble(block + 8, j) | fifth_bit(block + 4, j)) + m;
    }
}

/* f16 d, 32 signed bytes: d q */
static void read_q8_0(const unsigned char *block, float *out)
{
    const float d = half_at(block);
    for (int j = 0; j < SMALL; j++) {
        out[j] = (float)(int8_t)block[2 + j] * d;
    }
}

/* f16 d, f16 dmin, 12 bytes of scales and minima, 128 bytes of nibbles: d scale q - dmin minimum.
 * With 32 bytes of fifth bits before the nibbles, whose bit j belongs to sub-block j, it is Q5_K.
 */
static void read_k(const unsigned char *block, const unsigned char *fifth,
                   const unsigned char *nibbles, float *out)
{
    const float d = half_at(block);
    const float least = half_at(block + 2);
    for (int j = 0; j < LARGE / SMALL; j++) {
        float scale = 0.0F;
        float minimum = 0.0F;
        /* The 6-bit scale and minimum of sub-block j of 8, from 12 bytes. */
        const unsigned char *bytes = block + 4;
        if (j < 4) {
            scale = (float)(bytes[j] & 63);
            minimum = (float)(bytes[j + 4] & 63);
        } else {
            scale = (float)((bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4);
            minimum = (float)(bytes[j + 4] >> 4 | (bytes[j] >> 6) << 4);
        }
        scale *= d;
        minimum *= least;
        for (int l = 0; l < SMALL; l++) {
            const unsigned char both = nibbles[j / 2 * SMALL + l];
            const int high = fifth == NULL ? 0 : (fifth[l] >> j & 1) << 4;
            const int q = (j % 2 == 0 ? both & 15 : both >> 4) | high;
            out[j * SMALL + l] = scale * (float)q - minimum;
        }
    }
}

static void read_q4_k(const unsigned char *block, float *out)
{
    read_k(block, NULL, block + 4 + SCALES, out);
}

static void read_q5_k(const unsigned char *block, float *out)
{
    read_k(block, block + 4 + SCALES, block + 4 + SCALES + LARGE / 8, out);
}

/* 128 bytes of lower nibbles, 64 bytes of upper bit pairs, 16 signed scales, f16 d: d scale (q -
 * 32). Each half of 128 elements has 64 and 32 bytes of them; group g of its 32 elements has the
 * bit pairs 2 g. */
static void read_q6_k(const unsigned char *block, float *out)
{
    const unsigned char *scales = block + LARGE / 2 + LARGE / 4;
    const float d = half_at(scales + LARGE / 16);
    for (int i = 0; i < LARGE; i++) {
        const int half = i / 128;
        const int g = i % 128 / SMALL;
        const int l = i % SMALL;
        const unsigned char both = block[64 * half + l + SMALL * (g % 2)];
        const int low = g < 2 ? both & 15 : both >> 4;
        const int high = block[LARGE / 2 + SMALL * half + l] >> 2 * g & 3;
        out[i] = d * (float)(int8_t)scales[i / 16] * (float)((low | high << 4) - 32);
    }
}

typedef void (*block_reader)(const unsigned char *block, float *out);

static const block_reader readers[GRAIL_DTYPE_COUNT] = {
    [GRAIL_DTYPE_Q4_0] = read_q4_0, [GRAIL_DTYPE_Q4_1] = read_q4_1, [GRAIL_DTYPE_Q5_0] = read_q5_0,
    [GRAIL_DTYPE_Q5_1] = read_q5_1, [GRAIL_DTYPE_Q8_0] = read_q8_0, [GRAIL_DTYPE_Q4_K] = read_q4_k,
    [GRAIL_DTYPE_Q5_K] = read_q5_k, [GRAIL_DTYPE_Q6_K] = read_q6_k,
};

static const size_t sizes[GRAIL_DTYPE_COUNT] = {
#define BLOCK_SIZE(code, name, elements, bytes) [code] = bytes,
    GRAIL_BLOCK_DTYPE_LIST(BLOCK_SIZE)
#undef BLOCK_SIZE
};

void blocks_to_f32(grail_dtype dtype, const void *source, int64_t blocks, float *out)
{
    const unsigned char *block = source;
    const int64_t elements = dtype_block(dtype);
    for (int64_t b = 0; b < blocks; b++, block += sizes[dtype]) {
        if (readers[dtype] != NULL) {
            readers[dtype](block, out + b * elements);
        } else {
            group_read(dtype, block, out + b * elements);
        }
    }
}
