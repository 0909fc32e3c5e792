/* Products of the cpu backend in bf16: both operands are rounded to bf16 (nearest, ties to even),
 * their products are exact in f32, and sums are f32. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"

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

/* By a weight in the library's order. */
static grail_status linear_ordered(const operation *o, const void *weight)
{
    grail_status status = GRAIL_OK;
    const matrix x = o->m[0];
    const int64_t out = o->m[1].rows;
    uint16_t *rounded = NULL;
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
    TRY(onednn_weight_bytes(weight.rows, weight.columns, &bytes));
    TRY(memory_new_unset(&ordered, bytes, 1));
    TRY(round_values(weight.memory, matrix_count(weight), &rounded));
    TRY(onednn_weight_order(weight.rows, weight.columns, rounded, ordered));
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

grail_status cpu_bf16_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, double ceiling, float *y)
{
    grail_status status = GRAIL_OK;
    uint16_t *images = NULL;
    uint16_t *kernel = NULL;
    const int64_t taps = window_taps(&shape->window);
    TRY(round_values(x, shape->samples * shape->in.height * shape->in.width * shape->channels_in,
                     &images));
    TRY(round_values(weight, shape->channels_out * shape->channels_in / conv_groups(shape) * taps,
                     &kernel));
    TRY(onednn_convolve_bf16(shape, images, kernel, bias, accumulate, ceiling, y));
out:
    memory_free(images);
    memory_free(kernel);
    return status;
}
