/* Tables that nodes make of constants alone, such as positions that are resized to those of an
 * image: they are computed when the file is opened, and the nodes stay in the file. */
#ifndef GRAIL_ARCH_ONNX_TABLES_H
#define GRAIL_ARCH_ONNX_TABLES_H

#include "arch/onnx_nodes.h"

/** Whether the node at hand makes a table: a Transpose or Resize of a constant, or a Transpose,
 * Reshape, Resize or Concat with a table. */
bool onnx_makes_table(const onnx_reading *r);
/** Gives output 0: a table, which the graph owns. */
grail_status onnx_read_table(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
