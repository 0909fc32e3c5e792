#include "tensor/groups.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_NOT, ROUNDS_TO_F16, ROUNDS_TO_BF16 };

static const float least_scale = 0x1p-17F;

typedef struct group_form {
    grail_dtype dtype;
    int bits;
} group_form;

static const group_form forms[] = {
    {GRAIL_DTYPE_W4_G32, 4}, {GRAIL_DTYPE_W4_G64, 4}, {GRAIL_DTYPE_W4_G128, 4},
    {GRAIL_DTYPE_W8_G32, 8}, {GRAIL_DTYPE_W8_G64, 8}, {GRAIL_DTYPE_W8_G128, 8},
};

int group_bits(grail_dtype dtype)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].dtype == dtype) {
            return forms[i].bits;
        }
    }
    return 0;
}

bool group_dtype(int bits, int64_t elements, grail_dtype *out)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].bits == bits && dtype_block(forms[i].dtype) == elements) {
            *out = forms[i].dtype;
            return true;
        }
    }
    return false;
}

void group_put_head(void *block, float scale, grail_dtype rounding)
{
    const uint32_t how = rounding == GRAIL_DTYPE_F16    ? ROUNDS_TO_F16
                         : rounding == GRAIL_DTYPE_BF16 ? ROUNDS_TO_BF16
                                                        : ROUNDS_NOT;
    memcpy(block, &scale, sizeof scale);
    memcpy((unsigned char *)block + sizeof scale, &how, sizeof how);
}

float group_scale(const void *block)
{
    float scale = 0.0F;
    memcpy(&scale, block, sizeof scale);
    return scale;
}

static int code_at(int bits, const unsigned char *codes, int64_t j)
{
    return bits == 8 ? codes[j] : codes[j / 2] >> (j % 2 * 4) & 15;
}

static float rounded(float value, uint32_t how)
{
    switch (how) {
    case ROUNDS_TO_F16:
        return float_of(f32_of_f16(f16_of_f32(bits_of(value))));
    case ROUNDS_TO_BF16:
        return float_of(f32_of_bf16(bf16_of_f32(bits_of(value))));
    default:
        return value;
    }
}

void group_read(grail_dtype dtype, const unsigned char *block, float *out)
{
    const int bits = group_bits(dtype);
    const int64_t elements = dtype_block(dtype);
    const float scale = group_scale(block);
    uint32_t how = 0;
    memcpy(&how, block + sizeof scale, sizeof how);
    for (int64_t j = 0; j < elements; j++) {
        const int q = code_at(bits, block + GROUP_HEAD, j) - (1 << (bits - 1));
        out[j] = rounded(scale * (float)q, how);
    }
}

static float settled_scale(float scale)
{
    const float nearest = rounded(fabsf(scale), ROUNDS_TO_BF16);
    return nearest > least_scale ? nearest : least_scale;
}

void group_put_scale(void *block, float scale)
{
    const float settled = settled_scale(scale);
    memcpy(block, &settled, sizeof settled);
}

void group_write(grail_dtype dtype, const float *values, unsigned char *block)
{
    const int64_t elements = dtype_block(dtype);
    const int half = 1 << (group_bits(dtype) - 1);
    const int bits = group_bits(dtype);
    float largest = 0.0F;
    for (int64_t j = 0; j < elements; j++) {
        largest = fabsf(values[j]) > largest ? fabsf(values[j]) : largest;
    }
    const float scale = settled_scale(largest / ((float)(1 << (bits - 1)) - 0.5F));
    group_put_head(block, scale, GRAIL_DTYPE_F32);
    for (int j = 0; j < (int)elements; j++) {
        const float q = fmaxf((float)-half, fminf((float)(half - 1), rintf(values[j] / scale)));
        group_put(dtype, block, j, (int)q + half);
    }
}

void group_read_grid(grail_dtype dtype, const unsigned char *block, block_grid *out)
{
    const int bits = group_bits(dtype);
    const float scale = group_scale(block);
    out->most = (1 << bits) - 1;
    for (int64_t j = 0; j < dtype_block(dtype); j++) {
        out->step[j] = scale;
        out->least[j] = -scale * (float)(1 << (bits - 1));
    }
}

void group_put(grail_dtype dtype, unsigned char *block, int j, int q)
{
    unsigned char *codes = block + GROUP_HEAD;
    if (group_bits(dtype) == 8) {
        codes[j] = (unsigned char)q;
        return;
    }
    const int shift = j % 2 * 4;
    codes[j / 2] = (unsigned char)((codes[j / 2] & ~(15 << shift)) | q << shift);
}
