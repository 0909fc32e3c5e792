/* The positions that values of the graph have, as far as it is read. */
#ifndef GRAIL_ARCH_ONNX_EXTENTS_H
#define GRAIL_ARCH_ONNX_EXTENTS_H

#include "arch/onnx_nodes.h"

/** That the positions of all values of the graph fit together: where those of the node at hand do
 * not, it goes from the graph and is a misfit. */
grail_status onnx_check_extents(onnx_reading *r) GRAIL_MUST_CHECK;
/** Positions of each sample; zeroed where the size of images is not declared. */
grail_status onnx_positions_of(onnx_reading *r, const onnx_known *x, extent *out) GRAIL_MUST_CHECK;
/** The same, which must be known. */
grail_status onnx_known_positions(onnx_reading *r, const onnx_known *x,
                                  extent *out) GRAIL_MUST_CHECK;

#endif
