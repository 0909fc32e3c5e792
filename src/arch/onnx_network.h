/* A network that an ONNX file describes by its nodes: a graph of them, and what a narrowed one has
 * in the file beside narrowed tensors. */
#ifndef GRAIL_ARCH_ONNX_NETWORK_H
#define GRAIL_ARCH_ONNX_NETWORK_H

#include "arch/architecture.h"

/** The integers of the file that count channels, as `narrowed`, the graph of its network with other
 * shapes, has them. *out is empty where none differ, but for the values whose shapes stay, and for
 * other formats; onnx_integer_list_fini, even after a failure. */
grail_status onnx_network_integers(const checkpoint *weights, const graph *narrowed,
                                   onnx_integer_list *out) GRAIL_MUST_CHECK;

#endif
