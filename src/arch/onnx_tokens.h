/* Positions in a row, [N, T, C]: tokens that are put before them, tables that are added, and what
 * takes single ones, or runs of channels. */
#ifndef GRAIL_ARCH_ONNX_TOKENS_H
#define GRAIL_ARCH_ONNX_TOKENS_H

#include "arch/onnx_nodes.h"

/** Whether a Concat puts constants before positions. */
bool onnx_adds_tokens(const onnx_reading *r);
grail_status onnx_add_tokens(onnx_reading *r) GRAIL_MUST_CHECK;

/** Whether an Add adds a table [1, T, C] or [T, C] to positions. */
bool onnx_adds_positions(const onnx_reading *r);
grail_status onnx_add_positions(onnx_reading *r) GRAIL_MUST_CHECK;

/** A Split of the channels of a Linear, or of what parts them. */
grail_status onnx_part_all(onnx_reading *r) GRAIL_MUST_CHECK;

/** Gives what `n` makes of all positions, which these dimensions must be. */
grail_status onnx_reduce_over(onnx_reading *r, node n, int count,
                              const int64_t axes[]) GRAIL_MUST_CHECK;

#endif
