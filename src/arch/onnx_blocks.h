/* The blocks of a network that nobody divided. */
#ifndef GRAIL_ARCH_ONNX_BLOCKS_H
#define GRAIL_ARCH_ONNX_BLOCKS_H

#include "graph/graph.h"

/** Numbers the nodes' blocks: each begins where a value forks towards a sum. */
grail_status onnx_add_blocks(graph *g) GRAIL_MUST_CHECK;

#endif
