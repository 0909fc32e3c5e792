#include "tensor/quantize.h"

#include "base/clones.h"
#include "tensor/block_numbers.h"
#include "tensor/blocks_q6_k.h"
#include "tensor/groups.h"

#include <math.h>
#include <string.h>

enum { SMALL = 32, LARGE = 256, SUB_BLOCKS = LARGE / SMALL, MOST_SCALE = 63, Q4_K_BYTES = 144 };

/* -- blocks of 32 with one factor -------------------------------------------------------------- */

/* f16 d, 16 bytes of nibbles; the value of the largest magnitude becomes -8 d. */
static void write_q4_0(const float *values, unsigned char *block)
{
    const float d = signed_largest(values, SMALL) / -8.0F;
    const float inverse = inverse_of(d);
    put_half(d, block);
    for (int j = 0; j < SMALL / 2; j++) {
        const int low = clamp((int8_t)(values[j] * inverse + 8.5F), 15);
        const int high = clamp((int8_t)(values[j + SMALL / 2] * inverse + 8.5F), 15);
        block[2 + j] = (unsigned char)(low | high << 4);
    }
}

/* f16 d, 4 bytes of fifth bits, 16 bytes of nibbles; the value of the largest magnitude becomes
 * -16 d. */
static void write_q5_0(const float *values, unsigned char *block)
{
    const float d = signed_largest(values, SMALL) / -16.0F;
    const float inverse = inverse_of(d);
    put_half(d, block);
    memset(block + 2, 0, 4);
    for (int j = 0; j < SMALL / 2; j++) {
        const int low = clamp((int8_t)(values[j] * inverse + 16.5F), 31);
        const int high = clamp((int8_t)(values[j + SMALL / 2] * inverse + 16.5F), 31);
        block[6 + j] = (unsigned char)((low & 15) | (high & 15) << 4);
        block[2 + j / 8] |= (unsigned char)((low >> 4) << j % 8);
        block[4 + j / 8] |= (unsigned char)((high >> 4) << j % 8);
    }
}

/* f16 d, 32 signed bytes */
static void write_q8_0(const float *values, unsigned char *block)
{
    const float d = fabsf(signed_largest(values, SMALL)) / 127.0F;
    const float inverse = inverse_of(d);
    put_half(d, block);
    for (int j = 0; j < SMALL; j++) {
        block[2 + j] = (unsigned char)(int8_t)roundf(values[j] * inverse);
    }
}

/* -- blocks of 256 with 6-bit scales and minima ------------------------------------------------ */

/* 32 values as step * q + least, q from 0 to 15, of each of 8 sub-blocks beside each other, so that
 * vectors hold one number of each and every sum has the order of ggml's; least is at most 0. */
typedef struct sub_blocks {
    float step[SUB_BLOCKS], least[SUB_BLOCKS];
    float q[SMALL][SUB_BLOCKS];
} sub_blocks;

/* What they are fitted to. */
typedef struct sub_values {
    float x[SMALL][SUB_BLOCKS];
    float w[SMALL][SUB_BLOCKS]; /* weights */
} sub_values;

/* Sums over the values of a sub-block, with weights w: of w, w x, w q, w q q and w q x. */
typedef struct affine_sums {
    float w[SUB_BLOCKS], x[SUB_BLOCKS], q[SUB_BLOCKS], qq[SUB_BLOCKS], qx[SUB_BLOCKS];
} affine_sums;

CPU_CLONES static void add_errors(const sub_values *v, const sub_blocks *b, float *error)
{
    for (int s = 0; s < SUB_BLOCKS; s++) {
        error[s] = 0.0F;
    }
    for (int j = 0; j < SMALL; j++) {
#pragma omp simd
        for (int s = 0; s < SUB_BLOCKS; s++) {
            const float difference = b->step[s] * b->q[j][s] + b->least[s] - v->x[j][s];
            error[s] += v->w[j][s] * (difference * difference);
        }
    }
}

/* q for values from `least` on in steps of 1 / inverse, and the sums with them. */
CPU_CLONES static void round_by(const sub_values *v, const float *least, const float *inverse,
                                float (*q)[SUB_BLOCKS], affine_sums *sums)
{
    affine_sums a = *sums;
    for (int s = 0; s < SUB_BLOCKS; s++) {
        a.q[s] = a.qq[s] = a.qx[s] = 0.0F;
    }
    for (int j = 0; j < SMALL; j++) {
#pragma omp simd
        for (int s = 0; s < SUB_BLOCKS; s++) {
            const float at = nearest_within(inverse[s] * (v->x[j][s] - least[s]), 15.0F);
            const float w = v->w[j][s];
            q[j][s] = at;
            a.q[s] += w * at;
            a.qq[s] += w * at * at;
            a.qx[s] += w * at * v->x[j][s];
        }
    }
    *sums = a;
}

static void take_sub_block(const sub_blocks *from, int s, sub_blocks *to)
{
    to->step[s] = from->step[s];
    to->least[s] = from->least[s];
    for (int j = 0; j < SMALL; j++) {
        to->q[j][s] = from->q[j][s];
    }
}

/* Chooses among 21 scalings around the one that spans the values from the best minimum so far: that
 * whose least squares has the smallest weighted error: ggml's make_qkx2_quants with 15, -1, 0.1
 * and 20.
 */
static void search_steps(const sub_values *v, const float *most, affine_sums *sums,
                         sub_blocks *best)
{
    enum { TRIALS = 21 };
    sub_blocks tried;
    float best_error[SUB_BLOCKS];
    float error[SUB_BLOCKS];
    float inverse[SUB_BLOCKS];
    float determinant[SUB_BLOCKS];
    add_errors(v, best, best_error);
    for (int trial = 0; trial < TRIALS; trial++) {
        const float steps = -1.0F + 0.1F * (float)trial + 15.0F;
        for (int s = 0; s < SUB_BLOCKS; s++) {
            inverse[s] = most[s] > best->least[s] ? steps / (most[s] - best->least[s]) : 0.0F;
        }
        round_by(v, best->least, inverse, tried.q, sums);
        for (int s = 0; s < SUB_BLOCKS; s++) {
            determinant[s] = sums->w[s] * sums->qq[s] - sums->q[s] * sums->q[s];
            /* The least squares of a sub-block's values on q. */
            tried.step[s] = (sums->w[s] * sums->qx[s] - sums->x[s] * sums->q[s]) / determinant[s];
            tried.least[s] = (sums->qq[s] * sums->x[s] - sums->q[s] * sums->qx[s]) / determinant[s];
            if (tried.least[s] > 0.0F) {
                tried.least[s] = 0.0F;
                tried.step[s] = sums->qx[s] / sums->qq[s];
            }
        }
        add_errors(v, &tried, error);
        for (int s = 0; s < SUB_BLOCKS; s++) {
            if (determinant[s] > 0.0F && error[s] < best_error[s]) {
                take_sub_block(&tried, s, best);
                best_error[s] = error[s];
            }
        }
    }
}

static void unpack_scale(const unsigned char *bytes, int j, int *step, int *minimum)
{
    const bool first = j < 4;
    *step = first ? bytes[j] & 63 : (bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4;
    *minimum = first ? bytes[j + 4] & 63 : bytes[j + 4] >> 4 | (bytes[j] >> 6) << 4;
}

/* Multiples of a common factor, which is stored: 63 of it are the largest. */
static void round_scales(const float *values, int *multiples, unsigned char *half)
{
    float largest = 0.0F;
    for (int j = 0; j < SUB_BLOCKS; j++) {
        largest = values[j] > largest ? values[j] : largest;
    }
    const float spanning = largest > 0.0F ? (float)MOST_SCALE / largest : 0.0F;
    const float inverse = isfinite(spanning) ? spanning : 0.0F; /* as a half the factor is 0 */
    for (int j = 0; j < SUB_BLOCKS; j++) {
        multiples[j] = clamp(nearest(inverse * values[j]), MOST_SCALE);
    }
    put_half(largest / (float)MOST_SCALE, half);
}

/* The nibbles of two sub-blocks are the lower and upper halves of 32 bytes. Those of the fit stay
 * where the step became 0. */
static void pack_values(const float *values, float step, float minimum, const sub_blocks *fit,
                        int s, unsigned char *bytes)
{
    for (int j = 0; j < SMALL; j++) {
        const int q =
            step != 0.0F ? clamp(nearest((values[j] + minimum) / step), 15) : (int)fit->q[j][s];
        bytes[j] = (unsigned char)(s % 2 == 1 ? bytes[j] | q << 4 : q);
    }
}

static void fit_block(const float *values, const float *weights, sub_blocks *out)
{
    sub_values v;
    for (int j = 0; j < SMALL; j++) {
        for (int s = 0; s < SUB_BLOCKS; s++) {
            v.x[j][s] = values[s * SMALL + j];
            v.w[j][s] = weights == NULL ? 0.0F : weights[s * SMALL + j];
        }
    }
    if (weights == NULL) {
        /* Large values count more, as far as nothing else is known. */
        float squares[SUB_BLOCKS] = {0.0F};
        for (int j = 0; j < SMALL; j++) {
            for (int s = 0; s < SUB_BLOCKS; s++) {
                squares[s] += v.x[j][s] * v.x[j][s];
            }
        }
        for (int j = 0; j < SMALL; j++) {
            for (int s = 0; s < SUB_BLOCKS; s++) {
                v.w[j][s] = sqrtf(squares[s] / (float)SMALL) + fabsf(v.x[j][s]);
            }
        }
    }
    affine_sums sums = {0};
    float most[SUB_BLOCKS];
    float spanning[SUB_BLOCKS];
    /* The range of each sub-block, and the sums without q. */
    for (int s = 0; s < SUB_BLOCKS; s++) {
        out->least[s] = most[s] = v.x[0][s];
        sums.w[s] = v.w[0][s];
        sums.x[s] = v.w[0][s] * v.x[0][s];
    }
    for (int j = 1; j < SMALL; j++) {
        for (int s = 0; s < SUB_BLOCKS; s++) {
            out->least[s] = v.x[j][s] < out->least[s] ? v.x[j][s] : out->least[s];
            most[s] = v.x[j][s] > most[s] ? v.x[j][s] : most[s];
            sums.w[s] += v.w[j][s];
            sums.x[s] += v.w[j][s] * v.x[j][s];
        }
    }
    for (int s = 0; s < SUB_BLOCKS; s++) {
        out->least[s] = out->least[s] > 0.0F ? 0.0F : out->least[s];
        const bool varies = most[s] != out->least[s];
        spanning[s] = varies ? 15.0F / (most[s] - out->least[s]) : 0.0F;
        out->step[s] = varies ? 1.0F / spanning[s] : 0.0F;
    }
    round_by(&v, out->least, spanning, out->q, &sums);
    search_steps(&v, most, &sums, out);
}

/* f16 d, f16 dmin, 12 bytes of scales and minima, 128 bytes of nibbles. Weights may be NULL. */
static void write_weighted_q4_k(const float *values, const float *weights, unsigned char *block)
{
    sub_blocks fit;
    float minima[SUB_BLOCKS];
    int step_codes[SUB_BLOCKS];
    int minimum_codes[SUB_BLOCKS];
    fit_block(values, weights, &fit);
    for (int s = 0; s < SUB_BLOCKS; s++) {
        minima[s] = -fit.least[s];
    }
    round_scales(fit.step, step_codes, block);
    round_scales(minima, minimum_codes, block + 2);
    /* 12 bytes: two numbers of 6 bits for each of 8 sub-blocks. */
    unsigned char *bytes = block + 4;
    for (int j = 0; j < 4; j++) {
        bytes[j] = (unsigned char)(step_codes[j] | (step_codes[j + 4] >> 4) << 6);
        bytes[j + 4] = (unsigned char)(minimum_codes[j] | (minimum_codes[j + 4] >> 4) << 6);
        bytes[j + 8] = (unsigned char)((step_codes[j + 4] & 15) | (minimum_codes[j + 4] & 15) << 4);
    }
    for (int s = 0; s < SUB_BLOCKS; s++) {
        pack_values(values + s * SMALL, get_half(block) * (float)step_codes[s],
                    get_half(block + 2) * (float)minimum_codes[s], &fit, s,
                    block + 16 + s / 2 * SMALL);
    }
}

static void write_q4_k(const float *values, unsigned char *block)
{
    write_weighted_q4_k(values, NULL, block);
}

/* -- single codes ------------------------------------------------------------------------------ */

/* The factor and minimum of all elements of a block with one factor. */
static void fill_grid(float step, float lowest, int most, block_grid *g)
{
    g->most = most;
    for (int j = 0; j < SMALL; j++) {
        g->step[j] = step;
        g->least[j] = step * lowest;
    }
}

static void read_k_grid(const unsigned char *block, block_grid *g)
{
    const float d = get_half(block);
    const float least = get_half(block + 2);
    g->most = 15;
    for (int j = 0; j < LARGE; j++) {
        int step = 0;
        int minimum = 0;
        unpack_scale(block + 4, j / SMALL, &step, &minimum);
        g->step[j] = d * (float)step;
        g->least[j] = -(least * (float)minimum);
    }
}

void block_read_grid(grail_dtype dtype, const void *block, block_grid *out)
{
    switch (dtype) {
    case GRAIL_DTYPE_Q4_0:
        fill_grid(get_half(block), -8.0F, 15, out);
        break;
    case GRAIL_DTYPE_Q5_0:
        fill_grid(get_half(block), -16.0F, 31, out);
        break;
    case GRAIL_DTYPE_Q8_0:
        fill_grid(get_half(block), -128.0F, 255, out);
        break;
    case GRAIL_DTYPE_Q4_K:
        read_k_grid(block, out);
        break;
    case GRAIL_DTYPE_Q6_K:
        q6_k_read_grid(block, out);
        break;
    default:
        group_read_grid(dtype, block, out);
        break;
    }
}

int block_nearest(const block_grid *g, int j, float value)
{
    return g->step[j] == 0.0F ? 0 : clamp(nearest((value - g->least[j]) / g->step[j]), g->most);
}

static void put_nibble(unsigned char *byte, bool upper, int q)
{
    *byte = (unsigned char)(upper ? (*byte & 15) | (q & 15) << 4 : (*byte & 0xf0) | (q & 15));
}

void block_put(grail_dtype dtype, void *block, int j, int q)
{
    unsigned char *bytes = block;
    const bool upper = j >= SMALL / 2;
    switch (dtype) {
    case GRAIL_DTYPE_Q4_0:
        put_nibble(bytes + 2 + j % (SMALL / 2), upper, q);
        break;
    case GRAIL_DTYPE_Q5_0:
        put_nibble(bytes + 6 + j % (SMALL / 2), upper, q);
        bytes[2 + j / 8] = (unsigned char)((bytes[2 + j / 8] & ~(1 << j % 8)) | (q >> 4) << j % 8);
        break;
    case GRAIL_DTYPE_Q8_0:
        bytes[2 + j] = (unsigned char)(int8_t)(q - 128);
        break;
    case GRAIL_DTYPE_Q4_K:
        put_nibble(bytes + 16 + j / 64 * SMALL + j % SMALL, j / SMALL % 2 == 1, q);
        break;
    case GRAIL_DTYPE_Q6_K:
        q6_k_put(bytes, j, q);
        break;
    default:
        group_put(dtype, bytes, j, q);
        break;
    }
}

/* -- all --------------------------------------------------------------------------------------- */

static void write_q6_k(const float *values, unsigned char *block)
{
    q6_k_write(values, NULL, block);
}

typedef void (*block_writer)(const float *values, unsigned char *block);

static const block_writer writers[GRAIL_DTYPE_COUNT] = {
    [GRAIL_DTYPE_Q4_0] = write_q4_0, [GRAIL_DTYPE_Q5_0] = write_q5_0,
    [GRAIL_DTYPE_Q8_0] = write_q8_0, [GRAIL_DTYPE_Q4_K] = write_q4_k,
    [GRAIL_DTYPE_Q6_K] = write_q6_k,
};

bool dtype_is_quantiser(grail_dtype dtype)
{
    return writers[dtype] != NULL || group_bits(dtype) != 0;
}

grail_status blocks_from_f32(grail_dtype dtype, const float *values, int64_t blocks, void *out)
{
    const int64_t elements = dtype_block(dtype);
    unsigned char *block = out;
    size_t bytes = 0;
    if (!dtype_bytes(dtype, elements, &bytes)) {
        return error_set(GRAIL_ERROR_SHAPE, "a block of %s has no size", grail_dtype_name(dtype));
    }
    for (int64_t b = 0; b < blocks; b++, block += bytes) {
        if (writers[dtype] != NULL) {
            writers[dtype](values + b * elements, block);
        } else {
            group_write(dtype, values + b * elements, block);
        }
        if (find_non_finite_stored(dtype, block, elements) >= 0) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "the values from index %lld on are too large for %s, whose factors "
                             "are at most 65504",
                             (long long)(b * elements), grail_dtype_name(dtype));
        }
    }
    return GRAIL_OK;
}

/* -- factors by weights ------------------------------------------------------------------------ */

static float weighted_error(grail_dtype dtype, const float *values, const float *weights,
                            const unsigned char *block)
{
    block_grid grid;
    float error = 0.0F;
    block_read_grid(dtype, block, &grid);
    for (int j = 0; j < (int)dtype_block(dtype); j++) {
        const float q = (float)block_nearest(&grid, j, values[j]);
        const float difference = grid.step[j] * q + grid.least[j] - values[j];
        error += weights[j] * (difference * difference);
    }
    return error;
}

static float get_factor(grail_dtype dtype, const unsigned char *block)
{
    return group_bits(dtype) == 0 ? get_half(block) : group_scale(block);
}

/* The usual factor of a block and other ones, beside each other. */
enum { FACTORS = 48 };
typedef struct factor_trials {
    float step[FACTORS];
    float error[FACTORS];
} factor_trials;

CPU_CLONES static void round_steps_to_half(factor_trials *trials)
{
#pragma omp simd
    for (int i = 0; i < FACTORS; i++) {
        trials->step[i] = float_of(f32_of_f16(f16_of_f32(bits_of(trials->step[i]))));
    }
}

/* error[i] <- sum_j weights[j] (values[j] - step[i] q)^2, q nearest from -half to half - 1 */
CPU_CLONES static void take_trial_errors(int64_t n, const float *values, const float *weights,
                                         float half, factor_trials *trials)
{
    factor_trials t = *trials;
    float inverse[FACTORS];
#pragma omp simd
    for (int i = 0; i < FACTORS; i++) {
        inverse[i] = t.step[i] == 0.0F ? 0.0F : 1.0F / t.step[i];
        t.error[i] = 0.0F;
    }
    for (int64_t j = 0; j < n; j++) {
#pragma omp simd
        for (int i = 0; i < FACTORS; i++) {
            const float q =
                nearest_within(values[j] * inverse[i] + half, 2.0F * half - 1.0F) - half;
            const float difference = t.step[i] * q - values[j];
            t.error[i] += weights[j] * (difference * difference);
        }
    }
    *trials = t;
}

/* Blocks with one factor try multiples of the usual one. Where it may be negative, with either
 * sign, since there is one number more below 0 than above; the scale of a group is not. */
static void search_factor(grail_dtype dtype, const float *values, const float *weights,
                          unsigned char *block)
{
    enum { SHARES = 21 };
    block_grid grid;
    factor_trials trials;
    const int signs = group_bits(dtype) == 0 ? 2 : 1;
    const float usual = get_factor(dtype, block);
    int best = 0;
    for (int i = 0; i < FACTORS; i++) {
        const bool tried = i > 0 && i <= signs * SHARES;
        const float share = tried ? 0.6F + 0.025F * (float)((i - 1) / signs) : 1.0F;
        trials.step[i] = tried && i % 2 == 0 && signs == 2 ? -usual * share : usual * share;
    }
    if (signs == 2) {
        round_steps_to_half(&trials);
    } else {
        for (int i = 0; i < FACTORS; i++) {
            unsigned char head[GROUP_HEAD];
            group_put_scale(head, trials.step[i]);
            trials.step[i] = group_scale(head);
        }
    }
    block_read_grid(dtype, block, &grid);
    take_trial_errors(dtype_block(dtype), values, weights, 0.5F * (float)(grid.most + 1), &trials);
    for (int i = 1; i < FACTORS; i++) {
        best = trials.error[i] < trials.error[best] ? i : best;
    }
    if (group_bits(dtype) == 0) {
        put_half(trials.step[best], block);
    } else {
        group_put_scale(block, trials.step[best]);
    }
}

grail_status block_fit_factors(grail_dtype dtype, const float *values, const float *weights,
                               void *block)
{
    CHECK(blocks_from_f32(dtype, values, 1, block));
    if (dtype_block(dtype) == LARGE) {
        /* Blocks of 256 with several factors take those of the search with these weights, where
         * they are better. */
        unsigned char fitted[Q6_K_BYTES]; /* the larger of both */
        if (dtype == GRAIL_DTYPE_Q6_K) {
            q6_k_write(values, weights, fitted);
        } else {
            write_weighted_q4_k(values, weights, fitted);
        }
        if (weighted_error(dtype, values, weights, fitted) <
            weighted_error(dtype, values, weights, block)) {
            memcpy(block, fitted, dtype == GRAIL_DTYPE_Q6_K ? Q6_K_BYTES : Q4_K_BYTES);
        }
    } else {
        search_factor(dtype, values, weights, block);
    }
    return GRAIL_OK;
}
