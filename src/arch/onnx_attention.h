/* Attention: heads of queries times those of keys, scaled, Softmax, times those of values. What is
 * between is kept as a form of a value (onnx_known), in whichever dimensions. */
#ifndef GRAIL_ARCH_ONNX_ATTENTION_H
#define GRAIL_ARCH_ONNX_ATTENTION_H

#include "arch/onnx_nodes.h"

/** Whether a Mul or Div is of heads, or of scores of attention, by one number. */
bool onnx_scales_heads(const onnx_reading *r);
grail_status onnx_scale_heads(onnx_reading *r, bool divides) GRAIL_MUST_CHECK;
/** Scores become their hyperbolic tangent. */
grail_status onnx_cap_scores(onnx_reading *r) GRAIL_MUST_CHECK;
/** A MatMul of two values: scores of attention, or its sums of values. */
grail_status onnx_multiply_heads(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
