/* Writes ONNX models (opset 17, IR version 8): nodes, small constants, and F32 tensors. The values
 * of tensors are written piece by piece to their places, so that a model is never held in memory
 * entirely. If one file cannot hold the model, the tensors are written to FILE.data beside it.
 * Source: onnx.proto of the ONNX project. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_WRITE_H
#define GRAIL_FORMAT_ONNX_ONNX_WRITE_H

#include "format/onnx/onnx_message.h"

enum { ONNX_OPSET = 17, ONNX_IR_VERSION = 8 };

typedef struct onnx_writer onnx_writer;

/** *out is owned: onnx_writer_free, which removes unfinished files. */
grail_status onnx_writer_create(onnx_writer **out) GRAIL_MUST_CHECK;
void onnx_writer_free(onnx_writer *w); /* NULL is allowed */

/* Declarations, in any order. ONNX_ANY_SIZE is a dimension "N" that the user of the model chooses.
 */
grail_status onnx_add_input(onnx_writer *w, const char *name, int rank,
                            const int64_t shape[]) GRAIL_MUST_CHECK;
grail_status onnx_add_output(onnx_writer *w, const char *name, int rank,
                             const int64_t shape[]) GRAIL_MUST_CHECK;
/** Adds a node; its strings are copied. The nodes that make its inputs must be added before. */
grail_status onnx_add_node(onnx_writer *w, const onnx_node *n) GRAIL_MUST_CHECK;
/** Adds a constant of one dimension, or a scalar for count -1. */
grail_status onnx_add_integers(onnx_writer *w, const char *name, int count,
                               const int64_t values[]) GRAIL_MUST_CHECK;
grail_status onnx_add_real(onnx_writer *w, const char *name, double value) GRAIL_MUST_CHECK;
/** Declares an F32 tensor, whose values onnx_put writes later; *out is its index. */
grail_status onnx_add_tensor(onnx_writer *w, const char *name, int rank, const int64_t shape[],
                             int *out) GRAIL_MUST_CHECK;

/** Lays out the file under a temporary name. A model of more than `largest` bytes gets a second
 * file. A file that exists already is GRAIL_ERROR_EXISTS. */
grail_status onnx_begin(onnx_writer *w, const char *path, int64_t largest) GRAIL_MUST_CHECK;
/** Writes values first .. first+count-1 of a tensor. */
grail_status onnx_put(onnx_writer *w, int tensor, int64_t first, int64_t count,
                      const float *values) GRAIL_MUST_CHECK;
/** Flushes and gives the files their names. */
grail_status onnx_finish(onnx_writer *w) GRAIL_MUST_CHECK;

/** After onnx_begin: bytes of both files, and whether there are two. */
int64_t onnx_bytes(const onnx_writer *w);
bool onnx_is_split(const onnx_writer *w);

#endif
