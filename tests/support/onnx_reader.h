/* Reads an ONNX file back, as far as the tests look at it. */
#ifndef GRAIL_TESTS_ONNX_READER_H
#define GRAIL_TESTS_ONNX_READER_H

#include "support/support.h"

#include "base/file.h"

enum { ONNX_MOST = 512, ONNX_NAME = 128 };

typedef struct onnx_read_tensor {
    char name[ONNX_NAME];
    int type, rank;
    int64_t shape[8];
    const unsigned char *raw; /* NULL where the values are in another file */
    size_t bytes;
    char location[ONNX_NAME];
    int64_t offset, length;
} onnx_read_tensor;

typedef struct onnx_read_node {
    char type[ONNX_NAME];
    char inputs[6][ONNX_NAME];
    int input_count;
    char output[ONNX_NAME];
    int attribute_count;
} onnx_read_node;

typedef struct onnx_file_read {
    file_map map;
    int64_t ir_version, opset;
    onnx_read_tensor tensors[ONNX_MOST];
    int tensor_count;
    onnx_read_node nodes[ONNX_MOST];
    int node_count;
    char input[ONNX_NAME], output[ONNX_NAME];
    int64_t input_shape[4], output_shape[4]; /* -1: a named size */
} onnx_file_read;

/** Parses the file, which must be a well-formed protocol buffer of known fields. Static; closed by
 * the next call. */
const onnx_file_read *onnx_read(const char *path);
/** NULL without. */
const onnx_read_tensor *onnx_find_tensor(const onnx_file_read *f, const char *name);
int onnx_count_nodes(const onnx_file_read *f, const char *type);

#endif
