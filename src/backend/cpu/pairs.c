#include "backend/cpu/pairs.h"

#include "backend/cpu/onednn.h"
#include "backend/cpu/rounding.h"
#include "base/clones.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define PAIRS_HAS_UNITS 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { HALF = PAIR_SIDE / 2, HALF_WORDS = HALF * HALF };

int64_t pair_squares(int64_t count)
{
    return (count + PAIR_SIDE - 1) / PAIR_SIDE;
}

/* -- ordering ---------------------------------------------------------------------------------- */

static inline float part_low(float x)
{
    return x - bf16_widened(bf16_rounded(x));
}

/* Two rows, as words of squares that are `step` words apart; and what rounding leaves, where `low`
 * is not NULL. */
CPU_CLONES static void join(int64_t squares, const float *even, const float *odd, int64_t step,
                            uint32_t *words, uint32_t *low)
{
    for (int64_t k = 0; k < squares; k++, even += PAIR_SIDE, odd += PAIR_SIDE) {
        for (int c = 0; c < PAIR_SIDE; c++) {
            words[k * step + c / HALF * HALF_WORDS + c % HALF] =
                bf16_rounded_bits(even[c]) >> 16 | bf16_rounded_bits(odd[c]);
        }
        for (int c = 0; low != NULL && c < PAIR_SIDE; c++) {
            low[k * step + c / HALF * HALF_WORDS + c % HALF] =
                bf16_rounded_bits(part_low(even[c])) >> 16 | bf16_rounded_bits(part_low(odd[c]));
        }
    }
}

/* `count` squares of a row, of which each has as many words as a row of a half; and what rounding
 * leaves, where `low` is not NULL. */
CPU_CLONES static void round_row(int64_t count, const float *x, uint32_t *words, uint32_t *low)
{
    for (int64_t k = 0; k < count; k++) {
        uint16_t halves[PAIR_SIDE]; /* of words, the lower one first */
        for (int i = 0; i < PAIR_SIDE; i++) {
            halves[i] = bf16_rounded(x[k * PAIR_SIDE + i]);
        }
        memcpy(words + k * PAIR_SQUARE, halves, sizeof halves);
        for (int i = 0; low != NULL && i < PAIR_SIDE; i++) {
            halves[i] = bf16_rounded(part_low(x[k * PAIR_SIDE + i]));
        }
        if (low != NULL) {
            memcpy(low + k * PAIR_SQUARE, halves, sizeof halves);
        }
    }
}

#ifdef PAIRS_HAS_UNITS
/* Sixteen of bf16, as f32. */
__attribute__((target("avx512f"))) static inline __m512 widened(__m256i values)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
}

/* What rounding to `both` leaves of two vectors, rounded. */
__attribute__((target("avx512f,avx512bf16"))) static inline __m512i
low_parts(__m512 first, __m512 second, __m512i both)
{
    const __m512 a = _mm512_sub_ps(first, widened(_mm512_castsi512_si256(both)));
    const __m512 b = _mm512_sub_ps(second, widened(_mm512_extracti64x4_epi64(both, 1)));
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* As join and round_row, by the processor's own instruction, which takes what is too small for a
 * normal number as 0, as its products do. */
__attribute__((target("avx512f,avx512bw,avx512bf16"))) static void
join_by_unit(int64_t squares, const float *even, const float *odd, int64_t step, uint32_t *words,
             uint32_t *low)
{
    const __m512i by_turns =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int64_t k = 0; k < squares; k++) {
        for (int half = 0; half < 2; half++, even += HALF, odd += HALF) {
            const int64_t at = k * step + half * HALF_WORDS;
            const __m512 first = _mm512_loadu_ps(even);
            const __m512 second = _mm512_loadu_ps(odd);
            const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
            _mm512_storeu_si512(words + at, _mm512_permutexvar_epi16(by_turns, both));
            if (low != NULL) {
                _mm512_storeu_si512(
                    low + at, _mm512_permutexvar_epi16(by_turns, low_parts(first, second, both)));
            }
        }
    }
}

__attribute__((target("avx512f,avx512bf16"))) static void
round_by_unit(int64_t count, const float *x, uint32_t *words, uint32_t *low)
{
    for (int64_t k = 0; k < count; k++, x += PAIR_SIDE) {
        const __m512 first = _mm512_loadu_ps(x);
        const __m512 second = _mm512_loadu_ps(x + HALF);
        const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
        _mm512_storeu_si512(words + k * PAIR_SQUARE, both);
        if (low != NULL) {
            _mm512_storeu_si512(low + k * PAIR_SQUARE, low_parts(first, second, both));
        }
    }
}
#else
static void join_by_unit(int64_t squares, const float *even, const float *odd, int64_t step,
                         uint32_t *words, uint32_t *low)
{
    join(squares, even, odd, step, words, low);
}

static void round_by_unit(int64_t count, const float *x, uint32_t *words, uint32_t *low)
{
    round_row(count, x, words, low);
}
#endif

typedef uint32_t word_row __attribute__((vector_size(HALF * sizeof(uint32_t))));

/* Rows 2i and 2i + 1 are made of the words of rows i and i + 8 by turns. */
static inline void weave(const word_row *from, word_row *to)
{
    for (int i = 0; i < HALF / 2; i++) {
        const word_row a = from[i];
        const word_row b = from[i + HALF / 2];
        to[2 * i] =
            __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        to[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
}

/* A half on the left is that on the right transposed, which four times woven is: each time turns
 * the four bits of a row and the four of a column by one. */
CPU_CLONES static void turn(const uint32_t *right, uint32_t *left)
{
    word_row a[HALF];
    word_row b[HALF];
    memcpy(a, right, sizeof a);
    weave(a, b);
    weave(b, a);
    weave(a, b);
    weave(b, a);
    memcpy(left, a, sizeof a);
}

typedef void (*joining)(int64_t squares, const float *even, const float *odd, int64_t step,
                        uint32_t *words, uint32_t *low);

static joining best_joining(void)
{
    return pairs_has(PAIR_VECTORS) ? join_by_unit : join;
}

void pairs_order(const float *x, int64_t stride, int64_t rows, int64_t columns,
                 const pair_places *to)
{
    const joining join_two = best_joining();
    float whole[PAIR_SIDE][PAIR_SIDE] = {{0.0F}};
    if (rows < PAIR_SIDE || columns < PAIR_SIDE) {
        for (int64_t r = 0; r < rows; r++) {
            memcpy(whole[r], x + r * stride, (size_t)columns * sizeof x[0]);
        }
        x = whole[0];
        stride = PAIR_SIDE;
    }
    for (int64_t q = 0; q < HALF; q++, x += 2 * stride) {
        join_two(1, x, x + stride, 0, to->right[0] + q * HALF,
                 to->right[1] == NULL ? NULL : to->right[1] + q * HALF);
    }
    for (int i = 0; i < 2 && to->left[i] != NULL; i++) {
        pairs_turn(to->right[i], to->left[i]);
    }
}

void pairs_order_columns(const float *x, int64_t stride, int64_t rows, int64_t columns,
                         int64_t step, uint32_t *right, uint32_t *low)
{
    /* squares whose words stay in the first-level cache until they are whole */
    const int64_t at_once = low == NULL ? 8 : 4;
    const joining join_two = best_joining();
    const int64_t whole = rows < PAIR_SIDE ? 0 : columns / PAIR_SIDE;
    for (int64_t j = 0; j < whole; j += at_once) {
        const int64_t count = whole - j < at_once ? whole - j : at_once;
        for (int64_t q = 0; q < HALF; q++) {
            const float *even = x + 2 * q * stride + j * PAIR_SIDE;
            const int64_t at = j * step + q * HALF;
            join_two(count, even, even + stride, step, right + at, low == NULL ? NULL : low + at);
        }
    }
    for (int64_t j = whole; j < pair_squares(columns); j++) {
        const int64_t left = columns - j * PAIR_SIDE;
        pairs_order(
            x + j * PAIR_SIDE, stride, rows, left < PAIR_SIDE ? left : PAIR_SIDE,
            &(pair_places){.right = {right + j * step, low == NULL ? NULL : low + j * step}});
    }
}

void pairs_order_rows(const float *x, int64_t stride, int64_t rows, int64_t columns, uint32_t *left,
                      uint32_t *low)
{
    void (*const round)(int64_t, const float *, uint32_t *, uint32_t *) =
        pairs_has(PAIR_VECTORS) ? round_by_unit : round_row;
    /* squares whose words stay in the first-level cache until they are whole */
    const int64_t at_once = low == NULL ? 8 : 4;
    const int64_t whole = columns / PAIR_SIDE;
    const int64_t rest = columns % PAIR_SIDE;
    for (int64_t k = 0; k < whole; k += at_once) {
        const int64_t count = whole - k < at_once ? whole - k : at_once;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t at = k * PAIR_SQUARE + r * HALF;
            round(count, x + r * stride + k * PAIR_SIDE, left + at, low == NULL ? NULL : low + at);
        }
    }
    for (int64_t r = 0; r < rows && rest > 0; r++) {
        const int64_t at = whole * PAIR_SQUARE + r * HALF;
        float end[PAIR_SIDE] = {0.0F};
        memcpy(end, x + r * stride + whole * PAIR_SIDE, (size_t)rest * sizeof end[0]);
        round(1, end, left + at, low == NULL ? NULL : low + at);
    }
    for (int64_t k = 0; k < pair_squares(columns) && rows < PAIR_SIDE; k++) {
        const int64_t at = k * PAIR_SQUARE + rows * HALF;
        const size_t bytes = (size_t)((PAIR_SIDE - rows) * HALF) * sizeof left[0];
        memset(left + at, 0, bytes);
        if (low != NULL) {
            memset(low + at, 0, bytes);
        }
    }
}

void pairs_turn(const uint32_t *from, uint32_t *to)
{
    turn(from, to);
    turn(from + HALF_WORDS, to + HALF_WORDS);
}

typedef uint16_t value_row __attribute__((vector_size(PAIR_SIDE * sizeof(uint16_t))));

CPU_CLONES static void join_rows(const uint32_t *left, uint32_t *right)
{
    for (int64_t q = 0; q < HALF; q++) {
        value_row a;
        value_row b;
        memcpy(&a, left + 2 * q * HALF, sizeof a);
        memcpy(&b, left + (2 * q + 1) * HALF, sizeof b);
        const value_row low =
            __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8,
                                    40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
        const value_row high = __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52,
                                                       21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26,
                                                       58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
        memcpy(right + q * HALF, &low, sizeof low);
        memcpy(right + HALF_WORDS + q * HALF, &high, sizeof high);
    }
}

void pairs_join_rows(const uint32_t *left, uint32_t *right)
{
    join_rows(left, right);
}

/* Squares of a row of them. */
static int64_t row_width(const pair_product *p, int64_t i)
{
    return p->lower && i < p->width ? i + 1 : p->width;
}

/* -- the units --------------------------------------------------------------------------------- */

/* Half a square of C by half a square of each side. */
CPU_CLONES static void add_plain(const uint32_t *left, const uint32_t *right, float *c,
                                 int64_t stride)
{
    for (int i = 0; i < HALF; i++) {
        float sums[HALF] = {0.0F}; /* of a square alone, which keeps few terms apart from many */
        for (int q = 0; q < HALF; q++) {
            const float even = bf16_widened((uint16_t)left[i * HALF + q]);
            const float odd = bf16_widened((uint16_t)(left[i * HALF + q] >> 16));
            for (int j = 0; j < HALF; j++) {
                const uint32_t word = right[q * HALF + j];
                sums[j] += even * bf16_widened((uint16_t)word) +
                           odd * bf16_widened((uint16_t)(word >> 16));
            }
        }
        for (int j = 0; j < HALF; j++) {
            c[i * stride + j] += sums[j];
        }
    }
}

#ifdef PAIRS_HAS_UNITS

__attribute__((target("avx512f,avx512bf16"))) static void
add_vectors(const uint32_t *left, const uint32_t *right, float *c, int64_t stride)
{
    __m512 sums[HALF]; /* of a square alone, which keeps few terms apart from many */
    for (int i = 0; i < HALF; i++) {
        sums[i] = _mm512_setzero_ps();
    }
    for (int q = 0; q < HALF; q++) {
        const __m512bh row = (__m512bh)_mm512_loadu_si512(right + q * HALF);
        for (int i = 0; i < HALF; i++) {
            const __m512i word = _mm512_set1_epi32((int)left[i * HALF + q]);
            sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)word, row);
        }
    }
    for (int i = 0; i < HALF; i++) {
        _mm512_storeu_ps(c + i * stride, _mm512_add_ps(_mm512_loadu_ps(c + i * stride), sums[i]));
    }
}

/* Eight tiles of 16 rows of 64 bytes. */
typedef struct tile_configuration {
    uint8_t palette, start, reserved[14];
    uint16_t columns[16];
    uint8_t rows[16];
} tile_configuration;

__attribute__((target("amx-tile"))) static void configure_tiles(void)
{
    enum { TILES = 8 };
    tile_configuration all = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        all.rows[i] = HALF;
        all.columns[i] = HALF * sizeof(uint32_t);
    }
    _tile_loadconfig(&all);
}

/* Squares that are summed over while C stays in tiles: so few that those of one side, of two parts
 * where several products are added, stay in the first-level cache until the next square of C. */
static int64_t squares_at_once(const pair_product *p)
{
    const int64_t most = p->count > 1 ? 10 : 20; /* 40 KiB */
    const int64_t parts = (p->rows + most - 1) / most;
    return parts > 1 ? (p->rows + parts - 1) / parts : most;
}

/* A square of C in four tiles, whose sums stay there for so many rows of squares from `first` on,
 * and all products. The side that the next square of C has as well stays in the first-level cache,
 * past which the other one streams: 1,180 and 1,460 GFLOP/s for 576 rows that are summed over. */
__attribute__((target("amx-tile,amx-bf16,prfchw"), always_inline)) static inline void
add_square(const pair_product *p, int64_t first, int64_t count, int64_t i, int64_t j, float *c,
           int64_t stride)
{
    enum { ROW = HALF * sizeof(uint32_t) };
    const size_t between = (size_t)stride * sizeof c[0];
    const bool sets = p->sets && first == 0;
    const bool keeps_left = p->width > 1;
    const int64_t end = first + count < p->rows ? first + count : p->rows;
    float *below = c + HALF * stride;
    if (sets && p->start != NULL) { /* each row of a tile is the same */
        const float *start = p->start + j * PAIR_SIDE;
        _tile_loadd(0, start, 0);
        _tile_loadd(1, start + HALF, 0);
        _tile_loadd(2, start, 0);
        _tile_loadd(3, start + HALF, 0);
    } else if (sets) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, between);
        _tile_loadd(1, c + HALF, between);
        _tile_loadd(2, below, between);
        _tile_loadd(3, below + HALF, between);
    }
    const int64_t steps = (end - first) * p->count;
    const float *coming = c; /* rows that are not read are had while they are summed */
    int64_t rest = sets ? PAIR_SIDE : 0;
    for (int k = 0; k < p->count; k++) {
        const uint32_t *left = p->left[k] + i * p->step + first * PAIR_SQUARE;
        const uint32_t *right = p->right[k] + j * p->step + first * PAIR_SQUARE;
        for (int64_t r = first; r < end; r++, left += PAIR_SQUARE, right += PAIR_SQUARE) {
            if (keeps_left) {
                _tile_loadd(4, left, ROW);
                _tile_stream_loadd(6, right, ROW);
                _tile_stream_loadd(7, right + HALF_WORDS, ROW);
                _tile_loadd(5, left + HALF_WORDS, ROW);
            } else {
                _tile_stream_loadd(4, left, ROW);
                _tile_loadd(6, right, ROW);
                _tile_loadd(7, right + HALF_WORDS, ROW);
                _tile_stream_loadd(5, left + HALF_WORDS, ROW);
            }
            for (int64_t e = 0; e < PAIR_SIDE && rest > 0; e += steps, rest--, coming += stride) {
                __builtin_prefetch(coming, 1, 3);
                __builtin_prefetch(coming + HALF, 1, 3);
            }
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, c, between);
    _tile_stored(1, c + HALF, between);
    _tile_stored(2, below, between);
    _tile_stored(3, below + HALF, between);
}

__attribute__((target("amx-tile,amx-bf16,prfchw"))) static void
multiply_in_tiles(const pair_product *p, float *c, int64_t stride)
{
    const int64_t step = squares_at_once(p);
    configure_tiles();
    for (int64_t r = 0; p->width == 1 && (r == 0 || r < p->rows); r += step) {
        for (int64_t i = 0; i < p->height; i++) {
            add_square(p, r, step, i, 0, c + i * PAIR_SIDE * stride, stride);
        }
    }
    for (int64_t i = 0; p->width > 1 && i < p->height; i++) {
        for (int64_t r = 0; r == 0 || r < p->rows; r += step) {
            for (int64_t j = 0; j < row_width(p, i); j++) {
                add_square(p, r, step, i, j, c + i * PAIR_SIDE * stride + j * PAIR_SIDE, stride);
            }
        }
    }
    _tile_release();
}

/* The kernel keeps tiles for programs that ask for them. */
static bool may_use_tiles(void)
{
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

#else

static void add_vectors(const uint32_t *left, const uint32_t *right, float *c, int64_t stride)
{
    add_plain(left, right, c, stride);
}

static void multiply_in_tiles(const pair_product *p, float *c, int64_t stride)
{
    (void)p;
    (void)c;
    (void)stride;
}

#endif

static bool has_unit[PAIR_UNITS] = {[PAIR_PLAIN] = true}; /* not written after start */

static void find_units(void)
{
#ifdef PAIRS_HAS_UNITS
    const bf16_support support = onednn_bf16_support();
    has_unit[PAIR_VECTORS] = support == BF16_VECTORS || support == BF16_TILES;
    has_unit[PAIR_TILES] = support == BF16_TILES && may_use_tiles();
#endif
}

typedef void (*half_product)(const uint32_t *left, const uint32_t *right, float *c, int64_t stride);

/* The half i of squares down, j across. */
static void add_half(half_product add, const pair_product *p, int64_t i, int64_t j, float *c,
                     int64_t stride)
{
    const int64_t down = i / 2 * p->step + i % 2 * HALF_WORDS;
    const int64_t across = j / 2 * p->step + j % 2 * HALF_WORDS;
    static const float zeros[HALF] = {0.0F};
    const float *start = p->start == NULL ? zeros : p->start + j * HALF;
    for (int64_t r = 0; p->sets && r < HALF; r++) {
        memcpy(c + r * stride, start, sizeof zeros);
    }
    for (int k = 0; k < p->count; k++) {
        for (int64_t r = 0; r < p->rows; r++) {
            add(p->left[k] + down + r * PAIR_SQUARE, p->right[k] + across + r * PAIR_SQUARE, c,
                stride);
        }
    }
}

bool pairs_has(pair_unit unit)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_units);
    return has_unit[unit];
}

bool pairs_multiply_on(pair_unit unit, const pair_product *p, float *c, int64_t stride)
{
    if (!pairs_has(unit)) {
        return false;
    }
    if (unit == PAIR_TILES) {
        multiply_in_tiles(p, c, stride);
        return true;
    }
    for (int64_t i = 0; i < 2 * p->height; i++) { /* halves */
        for (int64_t j = 0; j < 2 * row_width(p, i / 2); j++) {
            add_half(unit == PAIR_VECTORS ? add_vectors : add_plain, p, i, j,
                     c + i * HALF * stride + j * HALF, stride);
        }
    }
    return true;
}

void pairs_multiply(const pair_product *p, float *c, int64_t stride)
{
    if (!pairs_multiply_on(PAIR_TILES, p, c, stride) &&
        !pairs_multiply_on(PAIR_VECTORS, p, c, stride)) {
        pairs_multiply_on(PAIR_PLAIN, p, c, stride);
    }
}
