/* Products of the cpu backend in bf16: both operands are rounded to bf16 (nearest, ties to even),
 * their products are exact in f32, and sums are f32. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/linear_pairs.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pairs.h"
#include "backend/finite.h"

/* Rows of X that are rounded at once. */
enum { ROWS_AT_ONCE = 2048 };

grail_status cpu_start_bf16(void)
{
    return onednn_bf16_support() != BF16_NONE
               ? cpu_start()
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "this processor has no AVX-512, which products in bf16 need; "
                           "compute in f32");
}

/* Rounded values; *out is owned. */
static grail_status round_values(const float *values, int64_t count, uint16_t **out)
{
    const grail_status status = memory_new_unset(out, (size_t)count, sizeof **out);
    return status == GRAIL_OK ? convert_from_f32(GRAIL_DTYPE_BF16, values, count, *out) : status;
}

/* Weights lie in squares of pairs where there are matrix units, else in the library's order. */
static grail_status weight_bytes(int64_t out, int64_t in, size_t *bytes)
{
    return pairs_has(PAIR_TILES) ? pairs_weight_bytes(out, in, bytes)
                                 : onednn_weight_bytes(out, in, bytes);
}

static grail_status weight_order_values(int64_t out, int64_t in, const void *values, void *weight)
{
    return pairs_has(PAIR_TILES) ? pairs_weight_order(out, in, values, weight)
                                 : onednn_weight_order(out, in, values, weight);
}

static grail_status weight_restore(int64_t out, int64_t in, const void *weight, void *values)
{
    return pairs_has(PAIR_TILES) ? pairs_weight_restore(out, in, weight, values)
                                 : onednn_weight_restore(out, in, weight, values);
}

const weight_order cpu_bf16_weights = {weight_bytes, weight_order_values, weight_restore};

static grail_status linear_in_pairs(const operation *o, const void *weight)
{
    bool finite = false;
    CHECK(pairs_linear(o->m[0], weight, NULL, o->m[2].memory, false, o->m[3], &finite));
    if (finite) {
        finite_found(o->m[3]);
    }
    return GRAIL_OK;
}

/* By a weight in order. */
static grail_status linear_ordered(const operation *o, const void *weight)
{
    grail_status status = GRAIL_OK;
    const matrix x = o->m[0];
    const int64_t out = o->m[1].rows;
    uint16_t *rounded = NULL;
    if (pairs_has(PAIR_TILES)) {
        return linear_in_pairs(o, weight);
    }
    const int64_t panel = x.rows < ROWS_AT_ONCE ? x.rows : ROWS_AT_ONCE;
    TRY(memory_new_unset(&rounded, (size_t)(panel * x.columns), sizeof rounded[0]));
    for (int64_t first = 0; first < x.rows; first += panel) {
        const int64_t count = x.rows - first < panel ? x.rows - first : panel;
        TRY(convert_from_f32(GRAIL_DTYPE_BF16, host_row(x, first), count * x.columns, rounded));
        TRY(onednn_product(count, x.columns, out, rounded, weight, o->m[2].memory,
                           host_row(o->m[3], first)));
    }
out:
    memory_free(rounded);
    return status;
}

static grail_status linear_of_values(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix weight = o->m[1];
    size_t bytes = 0;
    uint16_t *rounded = NULL;
    void *ordered = NULL;
    TRY(weight_bytes(weight.rows, weight.columns, &bytes));
    TRY(memory_new_unset(&ordered, bytes, 1));
    TRY(round_values(weight.memory, matrix_count(weight), &rounded));
    TRY(weight_order_values(weight.rows, weight.columns, rounded, ordered));
    memory_free(rounded);
    rounded = NULL;
    TRY(linear_ordered(o, ordered));
out:
    memory_free(rounded);
    memory_free(ordered);
    return status;
}

grail_status cpu_bf16_linear(const operation *o)
{
    if (matrix_count(o->m[0]) == 0 || matrix_count(o->m[3]) == 0) {
        return cpu_linear(o); /* the library knows no such products */
    }
    return matrix_is_ordered(o->m[1]) ? linear_ordered(o, o->m[1].memory) : linear_of_values(o);
}

/* out[rows, count] <- columns `first` and on of X[rows, all] */
static grail_status round_columns(const float *x, int64_t rows, int64_t all, int64_t first,
                                  int64_t count, uint16_t *out)
{
    if (count == all) {
        return convert_from_f32(GRAIL_DTYPE_BF16, x, rows * all, out);
    }
    for (int64_t r = 0; r < rows; r++) {
        CHECK(convert_from_f32(GRAIL_DTYPE_BF16, x + r * all + first, count, out + r * count));
    }
    return GRAIL_OK;
}

/* oneDNN 2.6.3 ends the program on AMX from somewhere between 4,196 and 7,300 channels on; so more
 * than MOST_CHANNELS are taken in pieces, the sums of each added to those before. */
grail_status cpu_bf16_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, double ceiling, float *y)
{
    enum { MOST_CHANNELS = 4096 };
    grail_status status = GRAIL_OK;
    uint16_t *images = NULL;
    uint16_t *kernel = NULL;
    const int64_t all = shape->channels_in;
    const int64_t taps = window_taps(&shape->window);
    const int64_t positions = shape->samples * shape->in.height * shape->in.width;
    const bool whole = conv_groups(shape) > 1 || all <= MOST_CHANNELS;
    const int64_t step = whole ? all : MOST_CHANNELS;
    const int64_t row = all / conv_groups(shape) * taps;
    TRY(memory_new_unset(&images, (size_t)(positions * step), sizeof images[0]));
    TRY(memory_new_unset(&kernel, (size_t)(shape->channels_out * (whole ? row : step * taps)),
                         sizeof kernel[0]));
    for (int64_t first = 0; first < all; first += step) {
        conv_shape piece = *shape;
        const bool ends = all - first <= step;
        piece.channels_in = ends ? all - first : step;
        TRY(round_columns(x, positions, all, first, piece.channels_in, images));
        TRY(round_columns(weight, shape->channels_out, row, whole ? 0 : first * taps,
                          whole ? row : piece.channels_in * taps, kernel));
        TRY(onednn_convolve_bf16(&piece, images, kernel, first == 0 ? bias : NULL,
                                 accumulate || first > 0, ends ? ceiling : 0.0, y));
    }
out:
    memory_free(images);
    memory_free(kernel);
    return status;
}

/* -- f32 by parts -------------------------------------------------------------------------------
 */

/* Ordering the parts of a weight takes longer than what its product with few rows would save. */
static bool parts_pay(matrix x, matrix weight)
{
    enum { LEAST_ROWS = 256, LEAST_FEATURES = 64 };
    return x.rows >= LEAST_ROWS && x.columns >= LEAST_FEATURES && weight.rows >= LEAST_FEATURES;
}

grail_status cpu_parts_linear(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix weight = o->m[1];
    size_t bytes = 0;
    unsigned char *parts = NULL;
    bool finite = false;
    if (!parts_pay(o->m[0], weight)) {
        return cpu_linear(o);
    }
    TRY(pairs_weight_bytes(weight.rows, weight.columns, &bytes));
    TRY(memory_new_unset(&parts, 2, bytes));
    pairs_weight_split(weight, parts, parts + bytes);
    TRY(pairs_linear(o->m[0], parts, parts + bytes, o->m[2].memory, false, o->m[3], &finite));
    if (finite) {
        finite_found(o->m[3]);
    }
out:
    memory_free(parts);
    return status;
}
