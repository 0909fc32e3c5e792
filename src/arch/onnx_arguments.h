/* What the node at hand is given: attributes, constants and values of the graph; what it gives on;
 * and how what does not fit is refused. */
#ifndef GRAIL_ARCH_ONNX_ARGUMENTS_H
#define GRAIL_ARCH_ONNX_ARGUMENTS_H

#include "arch/onnx_nodes.h"

enum { ONNX_MOST_AXES = 8 };

/** An attribute, or the usual value where the node has none of that name and kind. */
int64_t onnx_integer_of(const onnx_reading *r, const char *name, int64_t usual);
double onnx_real_of(const onnx_reading *r, const char *name, double usual);
/** Whether it has an attribute of this text. */
bool onnx_text_is(const onnx_reading *r, const char *name, const char *text);
bool onnx_has_input(const onnx_reading *r, int i);
/** What is known of input i, which it has. */
onnx_known *onnx_known_input(const onnx_reading *r, int i);
/** Input i, which the images reach, perhaps with zeros around. */
grail_status onnx_padded_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** Whether a Pad puts zeros around it. */
bool onnx_is_padded(const onnx_known *x);
/** Input i, which the images reach. */
grail_status onnx_value_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** Integers that an attribute or an input gives, at most ONNX_MOST_AXES; *count 0 where none does.
 */
grail_status onnx_list_of(const onnx_reading *r, const char *name, int input, int *count,
                          int64_t list[ONNX_MOST_AXES]) GRAIL_MUST_CHECK;
/** A number that an input gives, or an attribute of older operator sets; *found false: neither. */
grail_status onnx_number_of(const onnx_reading *r, const char *name, int input, bool *found,
                            double *out) GRAIL_MUST_CHECK;
/** The tensor of input i, a constant of `rank` dimensions of 1 or more; *transposed NULL: it must
 * lie as it is read. */
grail_status onnx_tensor_input(const onnx_reading *r, int i, int rank, bool *transposed,
                               const tensor_view **out) GRAIL_MUST_CHECK;
/** A parameter in a tensor that no other node reads: what two read cannot be narrowed for each. */
grail_status onnx_add_parameter(const onnx_reading *r, const tensor_view *t, bool transposed,
                                int *out) GRAIL_MUST_CHECK;
/** The same of other dimensions than the tensor's, those of the parameter. */
grail_status onnx_add_shaped(const onnx_reading *r, const tensor_view *t, bool transposed, int rank,
                             const int64_t shape[], int *out) GRAIL_MUST_CHECK;
/** A vector of so many channels; GRAPH_NONE where it may be left out and is. */
grail_status onnx_add_vector(const onnx_reading *r, int i, int64_t width, bool is_optional,
                             int *out) GRAIL_MUST_CHECK;
/** Notes that an integer, of an attribute or else of the tensor of an input, counts channels. */
grail_status onnx_note_count(onnx_reading *r, const char *name, int input, int64_t element,
                             int value) GRAIL_MUST_CHECK;
/** Whether these are dimensions 2 and 3, counted from either end: those of positions. */
bool onnx_are_positions(int count, const int64_t axes[]);
/** The positions of a value, which follow from the size of the images that the file states. */
grail_status onnx_positions(const onnx_reading *r, const onnx_known *x,
                            extent *out) GRAIL_MUST_CHECK;
grail_status onnx_needs_rank(const onnx_known *x, int rank) GRAIL_MUST_CHECK;

/** A node of this kind and none of its arguments; `right` may be NULL. */
node onnx_plain(node_kind kind, const onnx_known *left, const onnx_known *right);
/** Output i <- what is known of a value. */
grail_status onnx_give(const onnx_reading *r, int i, onnx_known like) GRAIL_MUST_CHECK;
/** Output 0 <- a node of the graph, whose other properties are those of its input. */
grail_status onnx_give_node(const onnx_reading *r, const node *n, onnx_known like) GRAIL_MUST_CHECK;

#endif
