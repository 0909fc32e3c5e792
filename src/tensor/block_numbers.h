/* Numbers as blocks of quantised weights hold them. */
#ifndef GRAIL_TENSOR_BLOCK_NUMBERS_H
#define GRAIL_TENSOR_BLOCK_NUMBERS_H

#include "tensor/half.h"

#include <math.h>

static inline void put_half(float value, unsigned char *at)
{
    const uint32_t half = f16_of_f32(bits_of(value));
    at[0] = (unsigned char)half;
    at[1] = (unsigned char)(half >> 8);
}

static inline float get_half(const unsigned char *at)
{
    return float_of(f32_of_f16((uint32_t)at[0] | (uint32_t)at[1] << 8));
}

/** 1 / d; of a d so small that this is infinite, 0, like that of 0: as a half such a d is 0, and so
 * is the block. */
static inline float inverse_of(float d)
{
    const float inverse = d == 0.0F ? 0.0F : 1.0F / d;
    return isfinite(inverse) ? inverse : 0.0F;
}

/** To the nearest integer, halves to even; beyond 2^22, where the sum would not round, the bound.
 */
static inline int nearest(float value)
{
    static const float shift = 12582912.0F; /* 1.5 * 2^23 */
    static const float bound = 4194303.0F;
    const float inside = value > bound ? bound : value < -bound ? -bound : value;
    return (int)(inside + shift - shift);
}

/** 0 to `most`. */
static inline int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/** The value of the largest magnitude, the first of several; 0 of none. */
static inline float signed_largest(const float *values, int count)
{
    float largest = 0.0F;
    for (int j = 0; j < count; j++) {
        largest = fabsf(values[j]) > fabsf(largest) ? values[j] : largest;
    }
    return largest;
}

/** clamp(nearest(value), most) as a number, so that vectors hold it. */
static inline float nearest_within(float value, float most)
{
    static const float shift = 12582912.0F;
    const float above = value > 0.0F ? value : 0.0F;
    return (above < most ? above : most) + shift - shift;
}

#endif
