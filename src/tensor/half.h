/* F16, BF16 and F32 by bit arithmetic. */
#ifndef GRAIL_TENSOR_HALF_H
#define GRAIL_TENSOR_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define F32_MAGNITUDE 0x7fffffffU
#define F32_INFINITY 0x7f800000U
/* The smallest magnitude that rounds to infinity in F16: 65520. */
#define F16_OVERFLOW 0x477ff000U

static inline float float_of(uint32_t bits)
{
    float value = 0.0F;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Selection by bits: gcc would turn a conditional expression into a branch around the
 * floating-point operation, and would not vectorise the loop. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0U - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* The exponent is rebiased by 127 - 15 = 112. A subnormal m * 2^-24 first becomes
 * 2^-14 (1 + m / 2^10); then 2^-14 is subtracted. Neither operand is subnormal in f32. */
static inline uint32_t f32_of_f16(uint32_t half)
{
    const uint32_t sign = (half & 0x8000U) << 16;
    const uint32_t shifted = (half & 0x7fffU) << 13;
    const uint32_t exponent = half & 0x7c00U;
    const uint32_t normal = shifted + (112U << 23);
    const uint32_t special = shifted | F32_INFINITY;
    const uint32_t subnormal = bits_of(float_of(shifted + (113U << 23)) - float_of(113U << 23));
    const uint32_t finite = choose(exponent == 0, subnormal, normal);
    return sign | choose(exponent == 0x7c00U, special, finite);
}

/* A NaN keeps its upper payload bits; a NaN that would lose all of them becomes the quiet NaN.
 * Normal results round by adding just under half a unit, plus one when the last kept bit is odd.
 * Results below 2^-14 are multiples of 2^-24, the unit of f32 in [0.5, 1): the sum with 0.5 rounds.
 */
static inline uint32_t f16_of_f32(uint32_t bits)
{
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & F32_MAGNITUDE;
    const uint32_t payload = (magnitude >> 13) & 0x3ffU;
    const uint32_t nan = 0x7c00U | (payload == 0 ? 0x200U : payload);
    const uint32_t normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    const uint32_t small = choose(magnitude < (113U << 23), subnormal, normal);
    const uint32_t finite = choose(magnitude >= F16_OVERFLOW, 0x7c00U, small);
    return sign | choose(magnitude > F32_INFINITY, nan, finite);
}

static inline uint32_t bf16_of_f32(uint32_t bits)
{
    const uint32_t upper = bits >> 16;
    const uint32_t nan = (upper & 0x7fU) == 0 ? upper | 0x40U : upper;
    const uint32_t rounded = (bits + 0x7fffU + (upper & 1U)) >> 16;
    return (bits & F32_MAGNITUDE) > F32_INFINITY ? nan : rounded;
}

static inline uint32_t f32_of_bf16(uint32_t half)
{
    return half << 16;
}

#endif
