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
/** Whether a Pad puts zeros around it. */
bool onnx_is_padded(const onnx_known *x);
/** The dimension that is all channels, or -1. */
int onnx_channel_dimension(const onnx_known *x);
/** Input i, which the images reach, in any dimensions; a Linear's output may not be added yet. */
grail_status onnx_laid_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** The same as a value of the graph, perhaps with zeros around. */
grail_status onnx_padded_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** The same without zeros around. */
grail_status onnx_any_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** Refuses positions in another order than the graph's. */
grail_status onnx_check_order(const onnx_known *x) GRAIL_MUST_CHECK;
/** How many rows it has: channels that it makes, or positions. */
int64_t onnx_linear_rows(const onnx_linear *linear);
/** Adds the Linear that makes a value to the graph, where it is not there yet. */
grail_status onnx_settle(const onnx_reading *r, onnx_known *x) GRAIL_MUST_CHECK;
/** Refuses a tensor in which a parameter lies, perhaps of a Linear that is not added yet. */
grail_status onnx_check_free(const onnx_reading *r, const tensor_view *t) GRAIL_MUST_CHECK;
/** Input i, which the images reach, [N, C, H, W] or [N, C]. */
grail_status onnx_value_input(const onnx_reading *r, int i, onnx_known **out) GRAIL_MUST_CHECK;
/** Integers that an attribute or an input gives, at most ONNX_MOST_AXES; *count 0 where none does.
 * A number of samples that is not known is -1. */
grail_status onnx_list_of(const onnx_reading *r, const char *name, int input, int *count,
                          int64_t list[ONNX_MOST_AXES]) GRAIL_MUST_CHECK;
/** A number that an input gives, or an attribute of older operator sets; *found false: neither. */
grail_status onnx_number_of(const onnx_reading *r, const char *name, int input, bool *found,
                            double *out) GRAIL_MUST_CHECK;
/** The tensor of input i, or the copy of it that the input reads; NULL: it is no constant. */
const tensor_view *onnx_constant_of(const onnx_reading *r, int i);
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
/** A vector of as many channels as `x` has, in a constant that is spread over its positions: its
 * dimensions are those of `x` from the last one on, and 1 but for the channels. With map->inverts,
 * or a scale, as storage_map says; *map is completed. */
grail_status onnx_add_channels(onnx_reading *r, int i, const onnx_known *x, storage_map map,
                               int *out) GRAIL_MUST_CHECK;
/** Whether input i is a constant of one value: *value, which no dimension of `x` is spread for. */
grail_status onnx_one_number(const onnx_reading *r, int i, const onnx_known *x, bool *found,
                             double *value) GRAIL_MUST_CHECK;
/** The dimensions of a constant; returns their number. */
int onnx_constant_shape(const onnx_reading *r, const onnx_known *k, int64_t shape[ONNX_MOST_AXES]);
/** *out <- the integer `element` of an attribute, or else of an input. */
grail_status onnx_count_at(const onnx_reading *r, const char *name, int input, int64_t element,
                           onnx_channels of, onnx_count *out) GRAIL_MUST_CHECK;
/** The vector of input i, of so many channels, in which no parameter lies yet. */
grail_status onnx_vector_input(const onnx_reading *r, int i, int64_t width,
                               const tensor_view **out) GRAIL_MUST_CHECK;
/** Notes that an integer, of an attribute or else of an input, counts channels. */
grail_status onnx_note_channels(onnx_reading *r, const char *name, int input, int64_t element,
                                onnx_channels of) GRAIL_MUST_CHECK;
/** The same of all channels of a value of the graph. */
grail_status onnx_note_count(onnx_reading *r, const char *name, int input, int64_t element,
                             int value) GRAIL_MUST_CHECK;
/** Notes that an attribute counts the groups of a value that this weight reads. */
grail_status onnx_note_groups(onnx_reading *r, const char *name, int value,
                              int weight) GRAIL_MUST_CHECK;
/** Whether these are dimensions 2 and 3, counted from either end: those of positions. */
bool onnx_are_positions(int count, const int64_t axes[]);
grail_status onnx_needs_rank(const onnx_known *x, int rank) GRAIL_MUST_CHECK;

/** *out <- a value of the graph: what samples hold for one of several inputs, as so many channels
 * of these positions. */
grail_status onnx_unpack(onnx_reading *r, int input, extent positions, int64_t channels,
                         int *out) GRAIL_MUST_CHECK;
/** A node of this kind and none of its arguments; `right` may be NULL. */
node onnx_plain(node_kind kind, const onnx_known *left, const onnx_known *right);
/** Output i <- what is known of a value. */
grail_status onnx_give(const onnx_reading *r, int i, onnx_known like) GRAIL_MUST_CHECK;
/** Output 0 <- a node of the graph, whose other properties are those of its input. */
grail_status onnx_give_node(const onnx_reading *r, const node *n, onnx_known like) GRAIL_MUST_CHECK;

#endif
