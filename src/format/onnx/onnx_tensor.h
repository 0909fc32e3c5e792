/* Tensors of an ONNX file. TensorProto stores values as raw little-endian bytes, in one of several
 * fields of numbers, or in another file. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_TENSOR_H
#define GRAIL_FORMAT_ONNX_ONNX_TENSOR_H

#include "format/onnx/onnx_message.h"
#include "tensor/tensor.h"

typedef struct onnx_tensor {
    /* The dtype is GRAIL_DTYPE_COUNT for elements that grail has no type for. The data is NULL
     * where the values are not stored as they lie in memory; onnx_tensor_load makes them. */
    tensor_view view;
    int element;        /* the type, numbered as in the file */
    bool is_numbers;    /* of a Constant without a tensor */
    byte_range message; /* TensorProto, or the AttributeProto of a Constant's numbers */
    uint32_t field;     /* of the message, which holds the values; 0: none, or another file does */
    /* In another file: its name, which is no string; empty where the values are in this one. */
    byte_range location;
    uint64_t offset;
    int64_t data_file; /* number of that file, -1 without */
} onnx_tensor;

/** Whether a field of TensorProto says its sizes, or its values or where they are. */
bool onnx_holds_values(uint32_t field);
/** "FLOAT16"; NULL for a number without a meaning. */
const char *onnx_element_name(int element);

/** The number of a type that grail has, 0 without. */
int onnx_element_of(grail_dtype dtype);

/** Reads TensorProto and checks that the values are as many as its shape says. The view gets no
 * name, and no data from another file. *name is the tensor's. Messages name neither. */
grail_status onnx_tensor_parse(byte_range message, byte_range *name,
                               onnx_tensor *out) GRAIL_MUST_CHECK;

/** A constant of numbers in field `field` of AttributeProto: rank 0, or with `is_list` 1. */
grail_status onnx_tensor_of_numbers(byte_range message, uint32_t field, int element, bool is_list,
                                    onnx_tensor *out) GRAIL_MUST_CHECK;

/** out[view.bytes] <- the values as they lie in memory. Texts are GRAIL_ERROR_UNSUPPORTED. */
grail_status onnx_tensor_load(const onnx_tensor *tensor, void *out) GRAIL_MUST_CHECK;
/** out[elements] <- those of F32, F16, BF16 and F64; other types are GRAIL_ERROR_UNSUPPORTED. */
grail_status onnx_tensor_f32(const onnx_tensor *tensor, float *out) GRAIL_MUST_CHECK;
/** out[elements] <- those of integers and booleans; other types, and values beyond 2^63 - 1, are
 * GRAIL_ERROR_UNSUPPORTED. */
grail_status onnx_tensor_integers(const onnx_tensor *tensor, int64_t *out) GRAIL_MUST_CHECK;

#endif
