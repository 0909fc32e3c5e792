/* The order of nodes: each behind what it reads. */
#ifndef GRAIL_FORMAT_ONNX_ONNX_ORDER_H
#define GRAIL_FORMAT_ONNX_ONNX_ORDER_H

#include "format/onnx/onnx_file.h"

/** Brings the nodes into such an order, where they are in another one, as converters write that
 * ONNX Runtime takes: file->order is set then. What nodes read is known. Nodes that read what
 * follows from themselves are GRAIL_ERROR_FORMAT. */
grail_status onnx_order_nodes(onnx_file *file) GRAIL_MUST_CHECK;

#endif
