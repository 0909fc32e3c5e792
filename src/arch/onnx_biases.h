/* What is added to the scores of attention for each query and key, often of each head its own, and
 * follows from their positions alone: biases, and so much less than 0 that a key is hidden. ONNX
 * Runtime computes it, or the file has it as a constant. */
#ifndef GRAIL_ARCH_ONNX_BIASES_H
#define GRAIL_ARCH_ONNX_BIASES_H

#include "arch/onnx_masks.h"

/** Finds what m->value adds to scores, or hides of them where it is truths: limits, and beside them
 * biases as a table, whose numbers hide what no limits do. GRAIL_ERROR_UNSUPPORTED where it is no
 * number for each query and key, or differs from sample to sample. */
grail_status onnx_find_biases(const onnx_reading *r, bool are_truths,
                              onnx_mask *m) GRAIL_MUST_CHECK;

#endif
