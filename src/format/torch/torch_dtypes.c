/* Source: torch/storage.py and torch/csrc/DynamicTypes.cpp, version 1.13; the 8-bit floats and wide
 * unsigned integers came with 2.1 and 2.3 and have no storage class. */
#include "format/torch/torch_dtypes.h"

#include <string.h>

static const torch_dtype types[] = {
    {GRAIL_DTYPE_F32, "FloatStorage", "float32", 4},
    {GRAIL_DTYPE_F16, "HalfStorage", "float16", 2},
    {GRAIL_DTYPE_BF16, "BFloat16Storage", "bfloat16", 2},
    {GRAIL_DTYPE_F64, "DoubleStorage", "float64", 8},
    {GRAIL_DTYPE_I64, "LongStorage", "int64", 8},
    {GRAIL_DTYPE_I32, "IntStorage", "int32", 4},
    {GRAIL_DTYPE_I16, "ShortStorage", "int16", 2},
    {GRAIL_DTYPE_I8, "CharStorage", "int8", 1},
    {GRAIL_DTYPE_U8, "ByteStorage", "uint8", 1},
    {GRAIL_DTYPE_BOOL, "BoolStorage", "bool", 1},
    {GRAIL_DTYPE_C64, "ComplexFloatStorage", "complex64", 8},
    {GRAIL_DTYPE_U16, NULL, "uint16", 2},
    {GRAIL_DTYPE_U32, NULL, "uint32", 4},
    {GRAIL_DTYPE_U64, NULL, "uint64", 8},
    {GRAIL_DTYPE_F8_E4M3, NULL, "float8_e4m3fn", 1},
    {GRAIL_DTYPE_F8_E5M2, NULL, "float8_e5m2", 1},
    {GRAIL_DTYPE_F8_E4M3FNUZ, NULL, "float8_e4m3fnuz", 1},
    {GRAIL_DTYPE_F8_E5M2FNUZ, NULL, "float8_e5m2fnuz", 1},
    {GRAIL_DTYPE_F8_E8M0, NULL, "float8_e8m0fnu", 1},
    {GRAIL_DTYPE_COUNT, "UntypedStorage", NULL, 1},
    {GRAIL_DTYPE_COUNT, "ComplexDoubleStorage", "complex128", 16},
    {GRAIL_DTYPE_COUNT, "QInt8Storage", "qint8", 1},
    {GRAIL_DTYPE_COUNT, "QUInt8Storage", "quint8", 1},
    {GRAIL_DTYPE_COUNT, "QInt32Storage", "qint32", 4},
    {GRAIL_DTYPE_COUNT, "QUInt4x2Storage", "quint4x2", 1},
    {GRAIL_DTYPE_COUNT, "QUInt2x4Storage", "quint2x4", 1},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const torch_dtype *torch_dtype_of_storage(const pickle_value *class)
{
    if (!pickle_is_global(class, "torch", NULL) &&
        !pickle_is_global(class, "torch.storage", NULL) &&
        !pickle_is_global(class, "torch.cuda", NULL)) {
        return NULL;
    }
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].storage_class != NULL &&
            pickle_span_is(class->global->name, types[i].storage_class)) {
            return &types[i];
        }
    }
    return NULL;
}

const torch_dtype *torch_dtype_of_name(const pickle_value *name)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].name != NULL && pickle_is_global(name, "torch", types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

const torch_dtype *torch_dtype_for(grail_dtype dtype)
{
    for (size_t i = 0; i < TYPE_COUNT && dtype != GRAIL_DTYPE_COUNT; i++) {
        if (types[i].dtype == dtype) {
            return &types[i];
        }
    }
    return NULL;
}
