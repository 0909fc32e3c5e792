/* Products of the cpu backend in bf16: both operands are rounded to bf16 (nearest, ties to even),
 * their products are exact in f32, and sums are f32. */
#include "backend/cpu/cpu.h"
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

grail_status cpu_bf16_weight_linear(int64_t rows, int64_t in, int64_t out, const void *x,
                                    const void *weight, const void *bias, void *y)
{
    grail_status status = GRAIL_OK;
    const float *from = x;
    float *to = y;
    uint16_t *rounded = NULL;
    const int64_t panel = rows < ROWS_AT_ONCE ? rows : ROWS_AT_ONCE;
    if (rows == 0 || in == 0 || out == 0) { /* the library knows no such products */
        return cpu_linear(rows, in, out, x, NULL, bias, y);
    }
    TRY(memory_new_unset(&rounded, (size_t)(panel * in), sizeof rounded[0]));
    for (int64_t first = 0; first < rows; first += panel) {
        const int64_t count = rows - first < panel ? rows - first : panel;
        TRY(convert_from_f32(GRAIL_DTYPE_BF16, from + first * in, count * in, rounded));
        TRY(onednn_product(count, in, out, rounded, weight, bias, to + first * out));
    }
out:
    memory_free(rounded);
    return status;
}

grail_status cpu_bf16_linear(int64_t rows, int64_t in, int64_t out, const void *x,
                             const void *weight, const void *bias, void *y)
{
    grail_status status = GRAIL_OK;
    size_t bytes = 0;
    uint16_t *rounded = NULL;
    void *ordered = NULL;
    TRY(onednn_weight_bytes(out, in, &bytes));
    TRY(memory_new_unset(&ordered, bytes, 1));
    TRY(round_values(weight, out * in, &rounded));
    TRY(onednn_weight_order(out, in, rounded, ordered));
    memory_free(rounded);
    rounded = NULL;
    TRY(cpu_bf16_weight_linear(rows, in, out, x, ordered, bias, y));
out:
    memory_free(rounded);
    memory_free(ordered);
    return status;
}

grail_status cpu_bf16_convolve(const conv_shape *shape, const float *x, const float *weight,
                               const float *bias, bool accumulate, bool relu, float *y)
{
    grail_status status = GRAIL_OK;
    uint16_t *images = NULL;
    uint16_t *kernel = NULL;
    const int64_t taps = shape->window.kernel_height * shape->window.kernel_width;
    TRY(round_values(x, shape->samples * shape->in.height * shape->in.width * shape->channels_in,
                     &images));
    TRY(round_values(weight, shape->channels_out * shape->channels_in * taps, &kernel));
    TRY(onednn_convolve_bf16(shape, images, kernel, bias, accumulate, relu, y));
out:
    memory_free(images);
    memory_free(kernel);
    return status;
}
