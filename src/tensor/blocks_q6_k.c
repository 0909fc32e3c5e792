/* The layout is that of blocks.c: 128 bytes of lower nibbles, 64 bytes of upper bit pairs, 16
 * signed scales, f16 d. Source of the search for scales: quantize_row_q6_K_ref and make_qx_quants
 * of ggml, src/ggml-quants.c. */
#include "tensor/blocks_q6_k.h"

#include "tensor/block_numbers.h"

#include <math.h>
#include <string.h>

enum {
    LARGE = 256,
    PART = 16, /* elements that share a scale */
    PARTS = LARGE / PART,
    PAIRS_AT = LARGE / 2,
    SCALES_AT = PAIRS_AT + LARGE / 4,
    FACTOR_AT = SCALES_AT + PARTS,
    HALF = 32, /* q - HALF is stored */
    MOST = 63
};

/* Largest magnitudes below it are zeros. */
static const float least_scale = 1e-15F;
/* Whose squares and cubes would overflow; the factor of such a block is infinite long before. */
static const float too_large = 1e10F;

/* The place of element j: its lower half lies in a nibble, its upper bits in a pair. */
typedef struct code_place {
    int low, low_shift, high, high_shift;
} code_place;

static void put_bits(unsigned char *byte, int shift, int mask, int bits)
{
    *byte = (unsigned char)((*byte & ~(mask << shift)) | bits << shift);
}

void q6_k_put(unsigned char *block, int j, int q)
{
    const int half = j / 128;
    const int group = j % 128 / 32;
    const int l = j % 32;
    const code_place at = (code_place){.low = 64 * half + l + 32 * (group % 2),
                                       .low_shift = group < 2 ? 0 : 4,
                                       .high = PAIRS_AT + 32 * half + l,
                                       .high_shift = 2 * group};
    put_bits(block + at.low, at.low_shift, 15, q & 15);
    put_bits(block + at.high, at.high_shift, 3, q >> 4);
}

static int8_t scale_at(const unsigned char *block, int part)
{
    return (int8_t)block[SCALES_AT + part];
}

void q6_k_read_grid(const unsigned char *block, block_grid *out)
{
    const float d = get_half(block + FACTOR_AT);
    out->most = MOST;
    for (int j = 0; j < LARGE; j++) {
        out->step[j] = d * (float)scale_at(block, j / PART);
        out->least[j] = out->step[j] * (float)-HALF;
    }
}

/* -- scales ------------------------------------------------------------------------------------ */

/* Values as multiples of 1 / inverse, and the sums of their weighted products with them. */
typedef struct part_fit {
    int q[PART];
    float products, squares;
} part_fit;

static void round_part(const float *values, const float *weights, float inverse, part_fit *out)
{
    out->products = 0.0F;
    out->squares = 0.0F;
    for (int j = 0; j < PART; j++) {
        const float weight = weights == NULL ? values[j] * values[j] : weights[j];
        out->q[j] = clamp(nearest(inverse * values[j]) + HALF, MOST);
        const float l = (float)(out->q[j] - HALF);
        out->products += weight * values[j] * l;
        out->squares += weight * l * l;
    }
}

/* Chooses among 19 steps around the one that makes the largest value -32 of them: that whose least
 * squares has the smallest error. */
static float fit_part(const float *values, const float *weights, int *q)
{
    enum { WIDEST = 9 };
    part_fit tried;
    const float largest = signed_largest(values, PART);
    memset(q, 0, PART * sizeof q[0]);
    if (fabsf(largest) < least_scale) {
        return 0.0F;
    }
    round_part(values, weights, (float)-HALF / largest, &tried);
    memcpy(q, tried.q, sizeof tried.q);
    float scale = tried.squares != 0.0F ? tried.products / tried.squares : 0.0F;
    float best = scale * tried.products;
    for (int trial = -WIDEST; trial <= WIDEST; trial++) {
        if (trial != 0) {
            round_part(values, weights, -((float)HALF + 0.1F * (float)trial) / largest, &tried);
        }
        if (trial != 0 && tried.squares > 0.0F &&
            tried.products * tried.products > best * tried.squares) {
            memcpy(q, tried.q, sizeof tried.q);
            scale = tried.products / tried.squares;
            best = scale * tried.products;
        }
    }
    return scale;
}

/* -- a block ----------------------------------------------------------------------------------- */

static void write_part(const float *values, int part, const int *fitted, unsigned char *block)
{
    const float step = get_half(block + FACTOR_AT) * (float)scale_at(block, part);
    for (int j = 0; j < PART; j++) {
        const int q = step == 0.0F ? fitted[j] : clamp(nearest(values[j] / step) + HALF, MOST);
        q6_k_put(block, part * PART + j, q);
    }
}

void q6_k_write(const float *values, const float *weights, unsigned char *block)
{
    int q[PARTS][PART];
    float scales[PARTS];
    memset(block, 0, Q6_K_BYTES);
    if (fabsf(signed_largest(values, LARGE)) > too_large) {
        put_half(INFINITY, block + FACTOR_AT);
        return;
    }
    for (int part = 0; part < PARTS; part++) {
        const int at = part * PART;
        scales[part] = fit_part(values + at, weights == NULL ? NULL : weights + at, q[part]);
    }
    const float largest = signed_largest(scales, PARTS);
    if (fabsf(largest) < least_scale) {
        return;
    }
    const float inverse = -128.0F / largest;
    put_half(1.0F / inverse, block + FACTOR_AT);
    for (int part = 0; part < PARTS; part++) {
        const int scale = nearest(inverse * scales[part]);
        block[SCALES_AT + part] = (unsigned char)(int8_t)(scale < 127 ? scale : 127);
        write_part(values + part * PART, part, q[part], block);
    }
}
