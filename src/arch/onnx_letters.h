/* The layout of a value of ONNX (onnx_known.layout) as a text: what each of its dimensions goes
 * through, a letter for each factor. */
#ifndef GRAIL_ARCH_ONNX_LETTERS_H
#define GRAIL_ARCH_ONNX_LETTERS_H

#include "arch/onnx_nodes.h"

/** text[ONNX_LAYOUT_SIZE] <- the layout in letters, whether or not it is a usual one. */
void onnx_letters(const onnx_known *x, char *text);
/** Sets the layout, which is no more letters than before. */
void onnx_set_layout(onnx_known *x, const char *text);
/** Whether a value's dimensions are other ones than [N, C, H, W] and [N, C]. */
bool onnx_has_layout(const onnx_known *x);
/** Whether two values have the same dimensions, but for positions where one has a single one. */
bool onnx_agree(const onnx_known *x, const onnx_known *y);
/** Whether positions are in windows, or rolled: then they lie in another order than the graph's. */
bool onnx_is_moved(const onnx_known *x);
bool onnx_moves_alike(const onnx_known *x, const onnx_known *y);
/** Whether the last dimension is all channels. */
bool onnx_ends_in_channels(const onnx_known *x);
/** Dimension k alone: its letters, at most ONNX_LAYOUT_SIZE - 1. */
void onnx_dimension_text(const char *layout, int k, char *text);
/** Puts letters in the place of dimension k; NULL: takes it out. They are no more than before. */
void onnx_replace_dimension(char *layout, int k, const char *letters);
/** An axis as it is counted from the front; -1 where a value of this rank has none. */
int onnx_axis_of(int64_t axis, int rank);
/** A bound of a run of `all` elements, which may be counted from their end or lie beyond them. */
int64_t onnx_bound_of(int64_t at, int64_t all);
/** Whose channels the value has. */
onnx_channels onnx_channels_of(const onnx_known *x);

#endif
