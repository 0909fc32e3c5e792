/* Tensors of layers beyond the number that a network is described with. */
#ifndef GRAIL_ARCH_SURPLUS_LAYERS_H
#define GRAIL_ARCH_SURPLUS_LAYERS_H

#include "format/weights/checkpoint.h"
#include "graph/graph.h"

/** The layer of a tensor, counted from 0, by its name behind the network's prefix, if tensors of
 * the graph are called like it behind `base` with the number of another layer, and none has so high
 * a one; -1 of others. */
int64_t surplus_layer(const graph *g, const char *base, const char *name);

/** Whether the layer of tensor number `tensor` predicts a further token from the hidden states of
 * the network, which do not depend on it (multi-token prediction). */
bool surplus_layer_predicts(const checkpoint *weights, int64_t tensor);

#endif
