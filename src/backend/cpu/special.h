/* exp, tanh, erfc, erf and log(1 + e) in f32 as straight-line code, so that a loop over them
 * becomes vector code; libm's calls do not. No fused operations are assumed. */
#ifndef GRAIL_BACKEND_CPU_SPECIAL_H
#define GRAIL_BACKEND_CPU_SPECIAL_H

#include <stdint.h>
#include <string.h>

/**
 * exp(x), relative error at most 2e-7 for -87.3 <= x <= 88.3. Below it is 0, above it stays at
 * exp(88.3); NaN gives NaN.
 *
 * x = n ln 2 + r with |r| <= ln(2)/2; e^r by its Taylor series to r^7 (remainder 6e-9); ln 2 in two
 * parts as in Cephes, the first short enough for n * part to be exact. Adding 1.5 * 2^23 rounds to
 * an integer and leaves it in the low bits, with no conversion that NaN could upset.
 */
static inline float exp_f32(float x)
{
    const float smallest = -87.3F;
    const float largest = 88.3F;
    const float magic = 12582912.0F;
    const float bounded = x < smallest ? smallest : x > largest ? largest : x;
    const float shifted = bounded * 1.44269504F + magic;
    const float n = shifted - magic;
    const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    float e = 1.0F / 5040.0F;
    e = e * r + 1.0F / 720.0F;
    e = e * r + 1.0F / 120.0F;
    e = e * r + 1.0F / 24.0F;
    e = e * r + 1.0F / 6.0F;
    e = e * r + 0.5F;
    e = (e * r) * r + r + 1.0F;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127U) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < smallest ? 0.0F : e * power;
}

/**
 * tanh(x), relative error at most 5e-7; NaN gives NaN.
 *
 * (1 - e) / (1 + e) with e = exp(-2 |x|); below 1/4, where the difference cancels, the Taylor
 * series to x^7 (remainder 8e-8).
 */
static inline float tanh_f32(float x)
{
    const float size = x < 0.0F ? -x : x;
    const float e = exp_f32(-2.0F * size);
    const float far = (1.0F - e) / (1.0F + e);
    const float square = x * x;
    float near = -17.0F / 315.0F;
    near = near * square + 2.0F / 15.0F;
    near = near * square - 1.0F / 3.0F;
    near = size + size * (near * square);
    const float found = size < 0.25F ? near : far;
    return x < 0.0F ? -found : found;
}

/**
 * erfc(z) for z >= 0, absolute error at most 4e-7.
 *
 * erfc(z) = exp(-z^2) t P(t), t = 1 / (1 + 0.45 z); P is the Chebyshev fit of degree 9 to
 * erfc(z) exp(z^2) / t on 0 < t <= 1, whose own error is 3e-8.
 */
static inline float erfc_f32(float z)
{
    const float t = 1.0F / (1.0F + 0.45F * z);
    float p = -0.04302676476F;
    p = p * t + 0.1979912819F;
    p = p * t - 0.3141882371F;
    p = p * t + 0.1560906585F;
    p = p * t - 0.03040002531F;
    p = p * t + 0.1227311753F;
    p = p * t + 0.1747108331F;
    p = p * t + 0.2283245479F;
    p = p * t + 0.253881166F;
    p = p * t + 0.2538853333F;
    return exp_f32(-z * z) * (t * p);
}

/**
 * erf(x), relative error at most 5e-7; NaN gives NaN.
 *
 * 1 - erfc(|x|); below 1, where the difference cancels, the Taylor series to x^19 (remainder 1e-8).
 */
static inline float erf_f32(float x)
{
    const float size = x < 0.0F ? -x : x;
    const float square = size < 1.0F ? x * x : 1.0F;
    float near = -1.0F / 6894720.0F;
    near = near * square + 1.0F / 685440.0F;
    near = near * square - 1.0F / 75600.0F;
    near = near * square + 1.0F / 9360.0F;
    near = near * square - 1.0F / 1320.0F;
    near = near * square + 1.0F / 216.0F;
    near = near * square - 1.0F / 42.0F;
    near = near * square + 0.1F;
    near = near * square - 1.0F / 3.0F;
    near = 1.12837917F * (size + size * (near * square));
    const float found = size < 1.0F ? near : 1.0F - erfc_f32(size);
    return x < 0.0F ? -found : found;
}

/**
 * log(1 + e) for 0 <= e <= 1, relative error at most 3e-7.
 *
 * 2 artanh(s) with s = e / (2 + e) <= 1/3, by its series to s^13 (remainder 9e-9).
 */
static inline float log1p_f32(float e)
{
    const float s = e / (2.0F + e);
    const float square = s * s;
    float sum = 1.0F / 13.0F;
    sum = sum * square + 1.0F / 11.0F;
    sum = sum * square + 1.0F / 9.0F;
    sum = sum * square + 1.0F / 7.0F;
    sum = sum * square + 0.2F;
    sum = sum * square + 1.0F / 3.0F;
    return 2.0F * (s + s * (sum * square));
}

#endif
