/* Makes the bytes of ONNX models, sound and spoilt ones. */
#ifndef GRAIL_TESTS_ONNX_BYTES_H
#define GRAIL_TESTS_ONNX_BYTES_H

#include "support/support.h"

#include "format/onnx/onnx_fields.h"
#include "format/onnx/onnx_file.h"

/** What belongs to a message and is appended to it as it is: "" of none. */
typedef struct more {
    const void *bytes;
    size_t size;
} more;

#define MORE(text) ((more){(text), sizeof(text) - 1})
#define NO_MORE ((more){"", 0})

/** Names with blanks between them; "_" stands for one that is left out. */
void put_node(buffer *graph, const char *operator_name, const char *inputs, const char *outputs,
              more fields);
/** A tensor with raw values, and then `fields`. With `raw` NULL it has none of these. */
void put_tensor(buffer *out, uint32_t field, const char *name, int element, int rank,
                const int64_t shape[], const void *raw, size_t size, more fields);
/** ModelProto of a graph, IR version 8; with opset 0 none. */
void put_model(buffer *out, const buffer *graph, int64_t opset, more fields);

/**
 * A graph with everything that the reader looks at:
 *   x [N, 3] and `w` are inputs; w F32 [2, 3] raw, b F16 [2] as numbers, and `t` FLOAT [2] as
 * numbers are initializers; 0: shape <- Constant(value_ints [-1, 2])      1: half <- Constant(value
 * 0.5, a tensor) 2: v <- Identity(w)       3: y <- Gemm(x, v, b; transB 1)      4: z <-
 * my.Custom(y, _, half) 5: i <- If(half; a branch that reads y)      6: out <- Reshape(z, shape)
 * value_info of y and z.
 */
void put_graph(buffer *graph);

#endif
