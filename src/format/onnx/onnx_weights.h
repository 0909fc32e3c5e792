/* The weights of an ONNX model as a file of tensors: initializers and constants of F32, F16, BF16
 * and F64. They are written into a model that is otherwise the one they were read from. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_WEIGHTS_H
#define GRAIL_FORMAT_ONNX_ONNX_WEIGHTS_H

#include "format/onnx/onnx_copies.h"
#include "format/tensor_file.h"
#include "format/tensor_writer.h"

/** Maps and checks a model; *out is owned: tensor_file_close. One that has values in files beside
 * it is put together in memory as one file, which results are then, too. */
grail_status onnx_weights_open(const char *path, tensor_file **out) GRAIL_MUST_CHECK;
/** The same of bytes in memory, which must outlive *out. */
grail_status onnx_weights_open_bytes(const char *name, const void *bytes, size_t size,
                                     tensor_file **out) GRAIL_MUST_CHECK;
/** Has *file hold another form of its model, `bytes`, which it owns from then on, and takes the
 * place of *file: one in which weights are tensors that nodes of the file compute. */
grail_status onnx_weights_fold(const char *name, unsigned char *bytes, size_t size,
                               tensor_file **file) GRAIL_MUST_CHECK;
/** What such a file was before; `file` itself where nothing is folded. */
const tensor_file *onnx_weights_source(const tensor_file *file);
/** The model of such a file. */
const onnx_file *onnx_weights_model(const tensor_file *file);
/** Those of its tensors that are copies. */
const onnx_copy_list *onnx_weights_copies(const tensor_file *file);

/** Integers that a narrowed model has in place of others, as many: of a tensor of INT64 or INT32,
 * such as the sizes of a Split, or of an attribute, such as the groups of a Conv. */
typedef struct onnx_integers {
    int64_t tensor;                  /* -1: of an attribute */
    int64_t node;                    /* that has it, or reads the tensor */
    const onnx_attribute *attribute; /* of the file: ONNX_INTEGER or ONNX_INTEGERS */
    int64_t *values;                 /* owned */
    char *name; /* owned: of a tensor that the node reads in place of this one; NULL: the tensor
                   itself changes */
    int input;  /* of the node, by which it reads the tensor */
    int64_t counter; /* that counts by the list which the node makes of it; -1: the node itself */
    char *list;      /* owned: of a second list, made for the counter by a node like this one; those
                        of other inputs of that node have the same; NULL: there is none */
    bool is_same;    /* as others of the tensor, which change it */
} onnx_integers;

typedef struct onnx_integer_list {
    onnx_integers *items; /* owned */
    int64_t count;
    int64_t *kept; /* values whose shapes stay whatever is narrow before them, owned */
    int64_t kept_count;
} onnx_integer_list;

void onnx_integer_list_fini(onnx_integer_list *list); /* works on a zeroed one */

/** Opens a writer that lays out `model` with tensors of its names in other shapes, and with other
 * integers (NULL: those it has). What keeps its shape keeps its place and its bytes, where values
 * are stored as they lie in memory. Copies (NULL: none) become tensors of their own; with `tied`
 * each has the place of the tensor, whose values they have. *out is owned: tensor_writer_close. */
grail_status onnx_weights_writer_open(const char *path, const onnx_file *model,
                                      const onnx_copy_list *copies, bool tied,
                                      const onnx_integer_list *integers, int64_t count,
                                      const tensor_view tensors[], layout_start start,
                                      tensor_writer **out) GRAIL_MUST_CHECK;

#endif
