/* bf16 as straight-line code, for loops that become vector code. */
#ifndef GRAIL_BACKEND_CPU_ROUNDING_H
#define GRAIL_BACKEND_CPU_ROUNDING_H

#include <stdint.h>
#include <string.h>

/** To the nearest, ties to even; a NaN stays one. What is too large for bf16 becomes infinite and
 * sums of it NaN, which is found where it arrives; convert_from_f32 refuses it. The bits are those
 * of an f32, of which the lower half is 0. */
static inline uint32_t bf16_rounded_bits(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t nan = bits | 0x400000U;
    const uint32_t nearest = bits + 0x7fffU + (bits >> 16 & 1U);
    return ((bits & 0x7fffffffU) > 0x7f800000U ? nan : nearest) & 0xffff0000U;
}

static inline uint16_t bf16_rounded(float x)
{
    return (uint16_t)(bf16_rounded_bits(x) >> 16);
}

static inline float bf16_widened(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x = 0.0F;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
