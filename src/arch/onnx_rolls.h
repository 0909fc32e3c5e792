/* Parts of images that a Concat puts together again: rows or columns that are moved up or left, of
 * which those that leave come in on the other side (rolled), and every second one, or at another
 * distance, side by side as channels (squares merged into one position). */
#ifndef GRAIL_ARCH_ONNX_ROLLS_H
#define GRAIL_ARCH_ONNX_ROLLS_H

#include "arch/onnx_nodes.h"

/** Whether the Slice at hand takes such a part, or all rows or columns. */
bool onnx_takes_lines(const onnx_reading *r);
grail_status onnx_take_lines(onnx_reading *r) GRAIL_MUST_CHECK;
/** Whether the Concat at hand puts such parts together. */
bool onnx_joins_lines(const onnx_reading *r);
grail_status onnx_join_lines(onnx_reading *r) GRAIL_MUST_CHECK;

#endif
