/* Conversions between stored 16-bit floats and f32 by bit arithmetic: the same bits on every
 * machine, NaN payloads included. Loops are branch-free so that the compiler turns them into vector
 * code, and long arrays are cut into pieces of fixed size that run in parallel.
 *
 * Formats (sign, exponent, mantissa bits; bias): F16 1, 5, 10; 15. BF16 1, 8, 7; 127, which is the
 * upper half of F32 1, 8, 23; 127. The rounding mode is assumed to be the default, to nearest. */
#include "base/parallel.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

#include <stdatomic.h>
#include <string.h>

/* No clones under a sanitizer: the selection of a clone runs before the sanitizer is ready. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

enum { GRAIN = 1 << 16 };

/* The smallest magnitude that rounds to infinity in BF16: 2^128 - 2^119. */
#define BF16_OVERFLOW 0x7f7f8000U

static inline uint32_t load16(const unsigned char *source, int64_t i)
{
    uint16_t half = 0;
    memcpy(&half, source + 2 * i, sizeof half);
    return half;
}

static inline void store16(unsigned char *out, int64_t i, uint32_t bits)
{
    const uint16_t half = (uint16_t)bits;
    memcpy(out + 2 * i, &half, sizeof half);
}

#define DEFINE_WIDEN(name, f32_of)                                                                 \
    VECTOR_CLONES static void name(int64_t count, const unsigned char *restrict source,            \
                                   float *restrict out)                                            \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const uint32_t bits = f32_of(load16(source, i));                                       \
            memcpy(&out[i], &bits, sizeof bits);                                                   \
        }                                                                                          \
    }

DEFINE_WIDEN(widen_f16, f32_of_f16)
DEFINE_WIDEN(widen_bf16, f32_of_bf16)

/* Both narrowing loops return whether a finite value became infinite. */
#define DEFINE_NARROW(name, of_f32, least)                                                         \
    VECTOR_CLONES static bool name(int64_t count, const float *restrict source,                    \
                                   unsigned char *restrict out)                                    \
    {                                                                                              \
        uint32_t overflow = 0;                                                                     \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const uint32_t bits = bits_of(source[i]);                                              \
            const uint32_t magnitude = bits & F32_MAGNITUDE;                                       \
            overflow |= (uint32_t)(magnitude >= (least)) & (uint32_t)(magnitude < F32_INFINITY);   \
            store16(out, i, of_f32(bits));                                                         \
        }                                                                                          \
        return overflow != 0;                                                                      \
    }

DEFINE_NARROW(narrow_f16, f16_of_f32, F16_OVERFLOW)
DEFINE_NARROW(narrow_bf16, bf16_of_f32, BF16_OVERFLOW)

/* Lowest index whose magnitude lies in [low, high], or -1. */
static int64_t find_magnitude(const float *values, int64_t count, uint32_t low, uint32_t high)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t magnitude = bits_of(values[i]) & F32_MAGNITUDE;
        if (magnitude >= low && magnitude <= high) {
            return i;
        }
    }
    return -1;
}

static void lower_to(_Atomic int64_t *first, int64_t index)
{
    int64_t current = atomic_load(first);
    while (index < current && !atomic_compare_exchange_weak(first, &current, index)) {
    }
}

typedef struct widening {
    grail_dtype dtype;
    const unsigned char *source;
    float *out;
} widening;

static void widen_piece(int64_t begin, int64_t end, void *context)
{
    const widening *w = context;
    const int64_t count = end - begin;
    if (w->dtype == GRAIL_DTYPE_F16) {
        widen_f16(count, w->source + 2 * begin, w->out + begin);
    } else if (w->dtype == GRAIL_DTYPE_BF16) {
        widen_bf16(count, w->source + 2 * begin, w->out + begin);
    } else if (w->dtype == GRAIL_DTYPE_F64) {
        /* What is beyond the range of F32 becomes infinite. */
        const unsigned char *source = w->source + 8 * begin;
        float *out = w->out + begin;
        for (int64_t i = 0; i < count; i++) {
            double x = 0.0;
            memcpy(&x, source + (size_t)i * sizeof x, sizeof x);
            out[i] = (float)x;
        }
    } else {
        memcpy(w->out + begin, w->source + 4 * begin, 4 * (size_t)count);
    }
}

static grail_status check_weight(grail_dtype dtype)
{
    return dtype_is_float(dtype)
               ? GRAIL_OK
               : error_set(
                     GRAIL_ERROR_UNSUPPORTED,
                     "cannot compute with %s; the supported dtypes are F64, F32, F16 and BF16",
                     grail_dtype_name(dtype));
}

static void widen_block(int64_t begin, int64_t end, void *context)
{
    const widening *w = context;
    size_t before = 0;
    const int64_t first = begin * dtype_block(w->dtype);
    if (dtype_bytes(w->dtype, first, &before)) {
        blocks_to_f32(w->dtype, w->source + before, end - begin, w->out + first);
    }
}

grail_status convert_to_f32(grail_dtype dtype, const void *source, int64_t count, float *out)
{
    if (dtype_block(dtype) > 1) {
        const widening *w = &(widening){.dtype = dtype, .source = source, .out = out};
        const int64_t block = dtype_block(w->dtype);
        widening copy = *w;
        if (count % block != 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%lld elements of %s are no complete blocks of %lld", (long long)count,
                             grail_dtype_name(w->dtype), (long long)block);
        }
        parallel_for(count / block, GRAIN / LARGEST_BLOCK, widen_block, &copy);
        return GRAIL_OK;
    }
    CHECK(check_weight(dtype));
    widening w = {.dtype = dtype, .source = source, .out = out};
    parallel_for(count, GRAIN, widen_piece, &w);
    return GRAIL_OK;
}

typedef struct narrowing {
    grail_dtype dtype;
    const float *source;
    unsigned char *out;
    _Atomic int64_t overflow; /* lowest index found so far, INT64_MAX for none */
} narrowing;

static void narrow_piece(int64_t begin, int64_t end, void *context)
{
    narrowing *n = context;
    const float *source = n->source + begin;
    const int64_t count = end - begin;
    bool overflow = false;
    uint32_t limit = 0;
    if (n->dtype == GRAIL_DTYPE_F16) {
        overflow = narrow_f16(count, source, n->out + 2 * begin);
        limit = F16_OVERFLOW;
    } else if (n->dtype == GRAIL_DTYPE_BF16) {
        overflow = narrow_bf16(count, source, n->out + 2 * begin);
        limit = BF16_OVERFLOW;
    } else if (n->dtype == GRAIL_DTYPE_F64) {
        unsigned char *out = n->out + 8 * begin;
        for (int64_t i = 0; i < count; i++) {
            const double x = (double)source[i];
            memcpy(out + (size_t)i * sizeof x, &x, sizeof x);
        }
    } else {
        memcpy(n->out + 4 * begin, source, 4 * (size_t)count);
    }
    if (overflow) {
        lower_to(&n->overflow, begin + find_magnitude(source, count, limit, F32_INFINITY - 1));
    }
}

grail_status convert_from_f32(grail_dtype dtype, const float *source, int64_t count, void *out)
{
    CHECK(check_weight(dtype));
    narrowing n = {.dtype = dtype, .source = source, .out = out, .overflow = INT64_MAX};
    parallel_for(count, GRAIN, narrow_piece, &n);
    const int64_t index = n.overflow;
    return index == INT64_MAX
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_NUMERIC, "value %g at index %lld is beyond the range of %s",
                           (double)source[index], (long long)index, grail_dtype_name(dtype));
}

/* How NaN and infinity are stored: an element x is one where ((x ^ flip) & mask) >= least. `parts`
 * such numbers make an element. Formats that have neither, and integers, have parts 0. */
typedef struct special {
    int parts, bytes;
    uint64_t flip, mask, least;
} special;

/* F8_E4M3 and F8_E8M0 have one NaN (of either sign), the FNUZ formats the one 0x80. F4 and F6 have
 * none. Sources: OCP Microscaling Formats 1.0; IEEE 754; Noune et al. 2022 for FNUZ. */
static const special specials[GRAIL_DTYPE_COUNT] = {
    [GRAIL_DTYPE_F8_E5M2] = {1, 1, 0, 0x7f, 0x7c},
    [GRAIL_DTYPE_F8_E4M3] = {1, 1, 0, 0x7f, 0x7f},
    [GRAIL_DTYPE_F8_E8M0] = {1, 1, 0, 0xff, 0xff},
    [GRAIL_DTYPE_F8_E4M3FNUZ] = {1, 1, 0x7f, 0xff, 0xff},
    [GRAIL_DTYPE_F8_E5M2FNUZ] = {1, 1, 0x7f, 0xff, 0xff},
    [GRAIL_DTYPE_F16] = {1, 2, 0, 0x7fff, 0x7c00},
    [GRAIL_DTYPE_BF16] = {1, 2, 0, 0x7fff, 0x7f80},
    [GRAIL_DTYPE_F32] = {1, 4, 0, F32_MAGNITUDE, F32_INFINITY},
    [GRAIL_DTYPE_C64] = {2, 4, 0, F32_MAGNITUDE, F32_INFINITY},
    [GRAIL_DTYPE_F64] = {1, 8, 0, 0x7fffffffffffffff, 0x7ff0000000000000},
};

/* Whether one of `count` numbers of this width at `source` is special. */
#define DEFINE_HAS_SPECIAL(name, type)                                                             \
    VECTOR_CLONES static bool name(int64_t count, const unsigned char *source, const special *s)   \
    {                                                                                              \
        const type flip = (type)s->flip;                                                           \
        const type mask = (type)s->mask;                                                           \
        const type least = (type)s->least;                                                         \
        type found = 0;                                                                            \
        for (int64_t i = 0; i < count; i++) {                                                      \
            type x = 0;                                                                            \
            memcpy(&x, source + (size_t)i * sizeof x, sizeof x);                                   \
            found |= (type)((type)((x ^ flip) & mask) >= least);                                   \
        }                                                                                          \
        return found != 0;                                                                         \
    }

DEFINE_HAS_SPECIAL(has_special_8, uint8_t)
DEFINE_HAS_SPECIAL(has_special_16, uint16_t)
DEFINE_HAS_SPECIAL(has_special_32, uint32_t)
DEFINE_HAS_SPECIAL(has_special_64, uint64_t)

static bool has_special(int64_t count, const unsigned char *source, const special *s)
{
    switch (s->bytes) {
    case 1:
        return has_special_8(count, source, s);
    case 2:
        return has_special_16(count, source, s);
    case 4:
        return has_special_32(count, source, s);
    default:
        return has_special_64(count, source, s);
    }
}

typedef struct search {
    const unsigned char *source;
    const special *special;
    _Atomic int64_t first; /* lowest index found so far, INT64_MAX for none */
} search;

static void search_piece(int64_t begin, int64_t end, void *context)
{
    search *s = context;
    const int64_t bytes = s->special->bytes;
    if (begin >= atomic_load(&s->first) ||
        !has_special(end - begin, s->source + begin * bytes, s->special)) {
        return;
    }
    while (!has_special(1, s->source + begin * bytes, s->special)) {
        begin++;
    }
    lower_to(&s->first, begin);
}

typedef struct block_search {
    grail_dtype dtype;
    const unsigned char *source;
    _Atomic int64_t first; /* lowest index found so far, INT64_MAX for none */
} block_search;

static void search_blocks(int64_t begin, int64_t end, void *context)
{
    block_search *s = context;
    const int64_t block = dtype_block(s->dtype);
    float values[LARGEST_BLOCK];
    for (int64_t b = begin; b < end && b * block < atomic_load(&s->first); b++) {
        size_t before = 0;
        if (!dtype_bytes(s->dtype, b * block, &before)) {
            return;
        }
        blocks_to_f32(s->dtype, s->source + before, 1, values);
        const int64_t found = find_magnitude(values, block, F32_INFINITY, F32_MAGNITUDE);
        if (found >= 0) {
            lower_to(&s->first, b * block + found);
            return;
        }
    }
}

int64_t find_non_finite_stored(grail_dtype dtype, const void *source, int64_t count)
{
    if (dtype_block(dtype) > 1) {
        /* The factors of a block may be special, which makes its elements so. */
        block_search s = {.dtype = dtype, .source = source, .first = INT64_MAX};
        parallel_for(count / dtype_block(dtype), GRAIN / LARGEST_BLOCK, search_blocks, &s);
        const int64_t first = s.first;
        return first == INT64_MAX ? -1 : first;
    }
    const special *how = &specials[dtype];
    search s = {.source = source, .special = how, .first = INT64_MAX};
    parallel_for(count * how->parts, GRAIN, search_piece, &s);
    const int64_t first = s.first;
    return first == INT64_MAX ? -1 : first / how->parts;
}

int64_t find_non_finite(const float *values, int64_t count)
{
    return find_non_finite_stored(GRAIL_DTYPE_F32, values, count);
}
