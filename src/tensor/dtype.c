/* Element types: names, sizes, and the arithmetic of shapes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

typedef struct dtype_fact {
    const char *name;
    int64_t elements; /* of a block; 1 where elements stand alone */
    size_t bits;      /* of a block */
} dtype_fact;

static const dtype_fact facts[GRAIL_DTYPE_COUNT] = {
#define DTYPE_FACT(code, name, bits) [code] = {name, 1, bits},
    GRAIL_DTYPE_LIST(DTYPE_FACT)
#undef DTYPE_FACT
#define DTYPE_FACT(code, name, elements, bytes) [code] = {name, elements, (bytes)*8},
        GRAIL_BLOCK_DTYPE_LIST(DTYPE_FACT)
#undef DTYPE_FACT
};

static bool is_known(grail_dtype dtype)
{
    return (size_t)dtype < GRAIL_DTYPE_COUNT;
}

const char *grail_dtype_name(grail_dtype dtype)
{
    return is_known(dtype) ? facts[dtype].name : "unknown dtype";
}

size_t dtype_bits(grail_dtype dtype)
{
    return is_known(dtype) && facts[dtype].elements == 1 ? facts[dtype].bits : 0;
}

int64_t dtype_block(grail_dtype dtype)
{
    return is_known(dtype) ? facts[dtype].elements : 1;
}

bool dtype_from_name(const char *name, grail_dtype *out)
{
    for (size_t i = 0; i < GRAIL_DTYPE_COUNT; i++) {
        if (facts[i].elements == 1 && strcmp(name, facts[i].name) == 0) {
            *out = (grail_dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_is_weight(grail_dtype dtype)
{
    return dtype == GRAIL_DTYPE_F32 || dtype == GRAIL_DTYPE_F16 || dtype == GRAIL_DTYPE_BF16;
}

bool dtype_is_float(grail_dtype dtype)
{
    return dtype_is_weight(dtype) || dtype == GRAIL_DTYPE_F64;
}

bool dtype_is_readable(grail_dtype dtype)
{
    return dtype_is_float(dtype) || dtype_block(dtype) > 1;
}

/* Multiplies from left to right, as the reference safetensors reader does: a zero hides an overflow
 * after it, but not one before it. */
bool shape_elements(int rank, const int64_t shape[], int64_t *out)
{
    int64_t product = 1;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0 || __builtin_mul_overflow(product, shape[d], &product)) {
            return false;
        }
    }
    *out = product;
    return true;
}

int64_t row_elements(int rank, const int64_t shape[])
{
    int64_t elements = 1;
    for (int d = 1; d < rank; d++) {
        elements *= shape[d];
    }
    return elements;
}

bool dtype_bytes(grail_dtype dtype, int64_t elements, size_t *out)
{
    size_t bits = 0;
    if (elements < 0 || !is_known(dtype) || elements % facts[dtype].elements != 0 ||
        !size_multiply((size_t)(elements / facts[dtype].elements), facts[dtype].bits, &bits) ||
        bits % 8 != 0) {
        return false;
    }
    *out = bits / 8;
    return true;
}

bool shape_bytes(grail_dtype dtype, int rank, const int64_t shape[], size_t *out)
{
    int64_t elements = 0;
    return shape_elements(rank, shape, &elements) && dtype_bytes(dtype, elements, out);
}

const char *shape_text(int rank, const int64_t shape[], char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && used < size; d++) {
        used += (size_t)snprintf(text + used, size - used, d == 0 ? "%lld" : ", %lld",
                                 (long long)shape[d]);
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
    return text;
}
