/* Tensors that several inputs of nodes read, such as equal ones that an exporter stored once: each
 * further input has a tensor of its own name, so that each can be narrowed by itself. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_COPIES_H
#define GRAIL_FORMAT_ONNX_ONNX_COPIES_H

#include "format/onnx/onnx_file.h"

typedef struct onnx_copy {
    tensor_view view; /* that of the tensor but for its name, which is owned and no other value's */
    int64_t tensor;   /* of the file */
    int64_t node;     /* that reads it */
    int input;
} onnx_copy;

typedef struct onnx_copy_list {
    onnx_copy *items; /* in the order of nodes and inputs */
    int64_t count;
    name_index index;
} onnx_copy_list;

/** Those of floats, two or more, but for the sizes of a Resize. What reads a tensor first has the
 * tensor itself; an Identity counts as those that read it. onnx_copy_list_fini, even after a
 * failure. */
grail_status onnx_copies_find(const onnx_file *file, onnx_copy_list *out) GRAIL_MUST_CHECK;
void onnx_copy_list_fini(onnx_copy_list *list);
/** What an input of a node reads, NULL where it is no copy. */
const onnx_copy *onnx_copy_at(const onnx_copy_list *list, int64_t node, int input);

/** out[size] <- "NAME.2", or the next number that no value of the file has, "" where that is too
 * long for a name; *number is the last one that was taken. */
void onnx_free_name(const onnx_file *f, const char *name, int64_t *number, char *out, size_t size);

#endif
