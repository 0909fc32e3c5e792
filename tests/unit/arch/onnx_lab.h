/* Opens networks that tests make node by node. */
#ifndef GRAIL_TESTS_ONNX_LAB_H
#define GRAIL_TESTS_ONNX_LAB_H

#include "unit/format/onnx_bytes.h"

#include "arch/model.h"

/** Writes a graph of these bytes as net.onnx into the directory, and opens it; with `out` NULL it
 * is closed again. `options` may be NULL.
 */
grail_status open_onnx_graph(const char *directory, const buffer *body, int64_t opset,
                             const grail_model_options *options, grail_model **out);

#endif
