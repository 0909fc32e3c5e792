/* Nodes, attributes and tensors of ONNX: what a reader finds, and how a writer puts them. Source:
 * onnx.proto of the ONNX project. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_MESSAGE_H
#define GRAIL_FORMAT_ONNX_ONNX_MESSAGE_H

#include "format/onnx/protobuf.h"

enum { ONNX_MAX_RANK = 8, ONNX_ANY_SIZE = -1 };

/** The largest file that protocol buffers allow, in bytes. */
#define ONNX_LARGEST_FILE ((int64_t)INT32_MAX)

/** Types of elements, numbered as in a file. */
enum {
    ONNX_FLOAT = 1,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16
};

/** Numbered as in a file; other kinds are kept as their bytes. */
typedef enum onnx_attribute_kind {
    ONNX_REAL = 1,
    ONNX_INTEGER = 2,
    ONNX_TEXT = 3,
    ONNX_TENSOR = 4,
    ONNX_GRAPH = 5,
    ONNX_REALS = 6,
    ONNX_INTEGERS = 7,
    ONNX_GRAPHS = 10
} onnx_attribute_kind;

typedef struct onnx_attribute {
    const char *name;
    onnx_attribute_kind kind;
    int64_t integer;
    double real;
    const int64_t *integers;
    const float *reals;
    int count; /* of integers or reals */
    /* Attributes of a file have besides: */
    byte_range text;
    int64_t tensor; /* of ONNX_TENSOR, its number in the file */
    byte_range
        message; /* AttributeProto, written as it is; empty for one that is made of the above */
} onnx_attribute;

typedef struct onnx_node {
    const char *operator_name;
    const char *name, *domain; /* NULL or "" without */
    int input_count;
    const char *const *inputs; /* "" for one that is left out */
    int output_count;
    const char *const *outputs;
    int attribute_count;
    const onnx_attribute *attributes;
} onnx_node;

/* Each appends a field. Attributes that are not of a file are ONNX_REAL, ONNX_INTEGER or
 * ONNX_INTEGERS. */
grail_status onnx_put_attribute(buffer *out, const onnx_attribute *a) GRAIL_MUST_CHECK;
grail_status onnx_put_node(buffer *out, const onnx_node *n) GRAIL_MUST_CHECK;

/** ValueInfoProto, as the field of that number. */
grail_status onnx_put_value(buffer *out, uint32_t field, const char *name, int element, int rank,
                            const int64_t shape[]) GRAIL_MUST_CHECK;

/** The sizes of TensorProto. */
grail_status onnx_put_sizes(buffer *out, int rank, const int64_t shape[]) GRAIL_MUST_CHECK;
/** Says that the values of a tensor are `bytes` bytes at `offset` in another file. */
grail_status onnx_put_location(buffer *out, const char *file, uint64_t offset,
                               uint64_t bytes) GRAIL_MUST_CHECK;

#endif
