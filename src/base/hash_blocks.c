/* SHA-256 of whole blocks with the instructions that x86 processors have for it, several times as
 * fast as libmd's. */
#include "base/hash_blocks.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

enum { GROUPS = 16, WORDS = 4 }; /* of four rounds each; of which four are kept */

/* The fractions of the cube roots of the first 64 primes (FIPS 180-4). */
static const uint32_t constants[GROUPS * WORDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

bool hash_blocks_are_fast(void)
{
    enum { FEATURES = 7, SHA = 29, UNKNOWN = 0, NO = 1, YES = 2 };
    static _Atomic int known; /* a virtual machine may take long to say */
    unsigned int a = 0;
    unsigned int b = 0;
    unsigned int c = 0;
    unsigned int d = 0;
    if (known == UNKNOWN) {
        const bool has = __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) != 0 &&
                         (b >> SHA & 1U) != 0 && __builtin_cpu_supports("sse4.1");
        known = has ? YES : NO;
    }
    return known == YES;
}

static inline __m128i load(const void *p)
{
    return _mm_loadu_si128(p);
}

__attribute__((target("sha,sse4.1"))) void hash_blocks(uint32_t state[8], const uint8_t *bytes,
                                                       size_t count)
{
    const __m128i swapped = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    /* The instructions hold words A B E F and C D G H, the first one highest. */
    const __m128i badc = _mm_shuffle_epi32(load(state), 0xb1);
    const __m128i hgfe = _mm_shuffle_epi32(load(state + 4), 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
    for (; count > 0; count--, bytes += 64) {
        const __m128i first = abef;
        const __m128i second = cdgh;
        __m128i w[WORDS];
#pragma GCC unroll 16
        for (int g = 0; g < GROUPS; g++) {
            __m128i *own = &w[g % WORDS];
            if (g < WORDS) {
                *own = _mm_shuffle_epi8(load(bytes + 16 * g), swapped);
            } else {
                const __m128i last = w[(g + 3) % WORDS];
                const __m128i between = _mm_alignr_epi8(last, w[(g + 2) % WORDS], 4);
                const __m128i begun = _mm_sha256msg1_epu32(*own, w[(g + 1) % WORDS]);
                *own = _mm_sha256msg2_epu32(_mm_add_epi32(begun, between), last);
            }
            const __m128i added = _mm_add_epi32(*own, load(constants + WORDS * g));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
        }
        abef = _mm_add_epi32(abef, first);
        cdgh = _mm_add_epi32(cdgh, second);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool hash_blocks_are_fast(void)
{
    return false;
}

void hash_blocks(uint32_t state[8], const uint8_t *bytes, size_t count)
{
    (void)state;
    (void)bytes;
    (void)count;
}

#endif
