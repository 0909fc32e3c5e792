#include "tensor/packed.h"

#include <math.h>

enum { PER_BYTE = 2, EXPONENT_BIAS = 127 };

bool tensor_is_packed(const tensor_view *tensor)
{
    return tensor->scales != NULL;
}

/* Element `i` of the stored order [matrices, out, in]. */
static float value_at(const tensor_view *tensor, int64_t i)
{
    static const float codes[] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                  -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
    const unsigned char pair = ((const unsigned char *)tensor->data)[i / PER_BYTE];
    const unsigned char scale = ((const unsigned char *)tensor->scales)[i / PACKED_BLOCK];
    return ldexpf(codes[i % PER_BYTE == 0 ? pair & 15 : pair >> 4], (int)scale - EXPONENT_BIAS);
}

void packed_to_f32(const tensor_view *tensor, int64_t first, int64_t count, float *out)
{
    const int64_t in = tensor->shape[1];
    const int64_t width = tensor->shape[2];
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = (first + i) / width; /* of matrices * in */
        const int64_t column = (first + i) % width;
        out[i] = value_at(tensor, (row / in * width + column) * in + row % in);
    }
}
