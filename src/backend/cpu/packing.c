#include "backend/cpu/packing.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

enum { LANES = 16, STAGES = 4 };

#define WITH_AVX512 __attribute__((target("avx512f")))
#define INLINE_AVX512 WITH_AVX512 __attribute__((always_inline)) static inline

static unsigned int first_lanes(int64_t count)
{
    return (1U << (unsigned int)count) - 1U;
}

static int64_t at_most(int64_t count, int64_t limit)
{
    return count < limit ? count : limit;
}

/* Each stage interleaves row i with row i + half: the bits of (row, lane) turn left by one, so
 * after as many stages as a lane has bits rows are lanes. */
INLINE_AVX512 void transpose(__m512 r[LANES])
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#pragma GCC unroll 4
    for (int stage = 0; stage < STAGES; stage++) {
        __m512 next[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = _mm512_permutex2var_ps(r[i], low, r[i + LANES / 2]);
            next[2 * i + 1] = _mm512_permutex2var_ps(r[i], high, r[i + LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            r[i] = next[i];
        }
    }
}

/* Up to 16 rows from `first` on, each of them contiguous; `rows` is a constant where it is called.
 */
INLINE_AVX512 void turn_rows(const packing *p, int64_t first, int rows, const float *from,
                             float *into)
{
    const __mmask16 lanes = (__mmask16)first_lanes(at_most(p->height - first, LANES));
    for (int64_t k = 0; k < p->length; k += LANES) {
        const int64_t count = at_most(p->length - k, LANES);
        const __mmask16 present = (__mmask16)first_lanes(count);
        __m512 r[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            r[i] = i < rows ? _mm512_maskz_loadu_ps(present, from + (first + i) * p->row_step + k)
                            : _mm512_setzero_ps();
        }
        transpose(r);
        float *out = into + k * p->height + first;
        if (count == LANES) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) {
                _mm512_mask_storeu_ps(out + i * p->height, lanes, r[i]);
            }
        } else {
            for (int64_t i = 0; i < count; i++) {
                _mm512_mask_storeu_ps(out + i * p->height, lanes, r[i]);
            }
        }
    }
}

/* The heights of BLIS' AVX-512 kernels are 32 and 12; other rows, of the last panel, are rare. */
WITH_AVX512 static void turn(const packing *p, const float *from, float *into)
{
    for (int64_t first = 0; first < p->height; first += LANES) {
        switch (p->rows - first) {
        case 32:
        case 16:
            turn_rows(p, first, 16, from, into);
            break;
        case 12:
            turn_rows(p, first, 12, from, into);
            break;
        default:
            turn_rows(p, first, (int)at_most(p->rows - first, LANES), from, into);
        }
    }
}

/* Where the elements of a column are contiguous. */
WITH_AVX512 static void copy(const packing *p, const float *from, float *into)
{
    for (int64_t first = 0; first < p->height; first += LANES) {
        const int64_t rows = at_most(p->rows - first, LANES);
        const __mmask16 lanes = (__mmask16)first_lanes(at_most(p->height - first, LANES));
        const __mmask16 present = (__mmask16)first_lanes(rows > 0 ? rows : 0);
        for (int64_t k = 0; k < p->length; k++) {
            _mm512_mask_storeu_ps(into + k * p->height + first, lanes,
                                  _mm512_maskz_loadu_ps(present, from + k * p->step + first));
        }
    }
}

bool pack_f32(const packing *p, const float *from, float *into)
{
    if (!__builtin_cpu_supports("avx512f") || (p->step != 1 && p->row_step != 1)) {
        return false;
    }
    if (p->row_step == 1) {
        copy(p, from, into);
    } else {
        turn(p, from, into);
    }
    memset(into + p->length * p->height, 0,
           (size_t)((p->full_length - p->length) * p->height) * sizeof *into);
    return true;
}
#else
bool pack_f32(const packing *p, const float *from, float *into)
{
    (void)p, (void)from, (void)into;
    return false;
}
#endif
