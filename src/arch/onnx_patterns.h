/* Patterns: nodes of a file that are one node of the graph. Each names the last of its nodes, which
 * stands for all of them, and the value that they read; the others are not read. */
#ifndef GRAIL_ARCH_ONNX_PATTERNS_H
#define GRAIL_ARCH_ONNX_PATTERNS_H

#include "arch/onnx_nodes.h"

/** Finds all in the file, and marks their nodes but the last ones as read. */
grail_status onnx_find_patterns(onnx_reading *r) GRAIL_MUST_CHECK;
/** The one that node i of the file stands for; NULL: none. */
const onnx_pattern *onnx_pattern_at(const onnx_reading *r, int64_t i);
/** Adds it to the graph. */
grail_status onnx_read_pattern(onnx_reading *r, const onnx_pattern *p) GRAIL_MUST_CHECK;

#endif
