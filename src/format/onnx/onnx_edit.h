/* Writes an ONNX model again with parts of it replaced. What is not replaced keeps its bytes and
 * its order: fields that grail does not know, names, metadata, operator sets. Without a change the
 * model, and the files that hold its values, come out byte for byte.
 *
 * What the file says of the shapes of inner values (value_info) is left out for those that a change
 * may have altered, which runtimes derive anew. Not checked: that a value which is still read is
 * still made, and what operators ask of the new shapes. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_EDIT_H
#define GRAIL_FORMAT_ONNX_ONNX_EDIT_H

#include "format/onnx/onnx_file.h"
#include "format/tensor_writer.h"

typedef struct onnx_edit onnx_edit;

/** out[count] <- the values first .. first+count-1 of a tensor. */
typedef grail_status (*onnx_values)(void *context, int64_t first, int64_t count, float *out);

/** `file` must outlive *out, which is owned: onnx_edit_free. */
grail_status onnx_edit_create(const onnx_file *file, onnx_edit **out) GRAIL_MUST_CHECK;
void onnx_edit_free(onnx_edit *e); /* NULL is allowed */

/** Replaces shape and values of a tensor of F32, F16, BF16 or F64, which keeps its type; `give` is
 * called when the model is written. A shared tensor changes for all that read it. */
grail_status onnx_edit_tensor(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                              onnx_values give, void *context) GRAIL_MUST_CHECK;
/** The same for a tensor of INT64 or INT32, whose values are copied. */
grail_status onnx_edit_integers(onnx_edit *e, int64_t tensor, int rank, const int64_t shape[],
                                const int64_t values[]) GRAIL_MUST_CHECK;
/** Replaces the attributes of a node, which are copied; those of the file may be among them,
 * but not with a tensor that changes. */
grail_status onnx_edit_attributes(onnx_edit *e, int64_t node, int count,
                                  const onnx_attribute attributes[]) GRAIL_MUST_CHECK;
void onnx_edit_remove(onnx_edit *e, int64_t node);
/** Leaves out an initializer, which no node reads any more. */
void onnx_edit_drop(onnx_edit *e, int64_t tensor);
/** Says that a value keeps its shape whatever changes before it. */
void onnx_edit_keep(onnx_edit *e, int64_t value);
/** Adds an initializer of the type of tensor `like`, which is a float; *out is its number, behind
 * the tensors of the file. Its values are written later (onnx_edit_lay_out). The name, which no
 * value of the file has, must outlive the edit. */
grail_status onnx_edit_add(onnx_edit *e, const char *name, int64_t like, int rank,
                           const int64_t shape[], int64_t *out) GRAIL_MUST_CHECK;
/** Adds an initializer of floats with these values, which must outlive the edit, as must its name,
 * perhaps that of a value whose node is removed. */
grail_status onnx_edit_add_values(onnx_edit *e, const tensor_view *values) GRAIL_MUST_CHECK;
/** Adds an initializer of the type and shape of tensor `like`, INT64 or INT32, with these values,
 * which are copied. */
grail_status onnx_edit_add_integers(onnx_edit *e, const char *name, int64_t like,
                                    const int64_t values[]) GRAIL_MUST_CHECK;
/** Has an input of a node read the value of that name, which must outlive the edit. */
grail_status onnx_edit_input(onnx_edit *e, int64_t node, int input,
                             const char *name) GRAIL_MUST_CHECK;
/** Adds a node before the node `before`, behind those that were added there already; with the
 * number of nodes at the end. */
grail_status onnx_edit_insert(onnx_edit *e, int64_t before, const onnx_node *n) GRAIL_MUST_CHECK;

/** Writes the model, and beside it the files of its values, under their names. If it takes more
 * than `largest` bytes, its initializers go to FILE.data. A file that exists already is
 * GRAIL_ERROR_EXISTS, and nothing is left of a failure. Called once. */
grail_status onnx_edit_write(onnx_edit *e, const char *path, int64_t largest) GRAIL_MUST_CHECK;
/** The same for values that are written later: those of the tensors that is_later[tensors of the
 * file] says, each changed or stored in the file as it lies in memory, and of added ones. *out <-
 * the model without them, as one file, and places[tensors of the file and added ones] where they
 * go. `give` may be NULL. Called
 * once. */
grail_status onnx_edit_lay_out(onnx_edit *e, const bool is_later[], file_layout *out,
                               size_t places[]) GRAIL_MUST_CHECK;
/** The edited model as one file in memory; tensors of the file may not be among what changes. *out
 * is owned: memory_free. */
grail_status onnx_edit_gather(onnx_edit *e, unsigned char **out, size_t *size) GRAIL_MUST_CHECK;
/** The model as one file in memory, with the values of the files beside it in their places; *out is
 * owned: memory_free. */
grail_status onnx_edit_join(const onnx_file *file, unsigned char **out,
                            size_t *size) GRAIL_MUST_CHECK;

#endif
