/* Tensors of a checkpoint that are no weights of any network, or of layers beyond the number that a
 * network is described with. */
#ifndef GRAIL_ARCH_OUTSIDE_TENSORS_H
#define GRAIL_ARCH_OUTSIDE_TENSORS_H

#include "format/weights/checkpoint.h"
#include "graph/graph.h"

typedef struct outside_kind {
    const char *what;   /* such as "causal masks" */
    bool is_left_out;   /* results lack them, since stock classes do; otherwise they are copied */
    bool is_unremarked; /* stock classes write them today */
} outside_kind;

/** The number of the kind of a tensor that has this name in its network; -1 for one that may be a
 * weight. */
int outside_kind_of(const char *name, const tensor_view *tensor);

enum { OUTSIDE_KINDS = 8 };
/** Kind 0 to OUTSIDE_KINDS - 1. */
const outside_kind *outside_kind_at(int kind);

/** The layer of a tensor, counted from 0, by its name behind the network's prefix, if tensors of
 * the graph are called like it behind `base` with the number of another layer, and none has so high
 * a one; -1 of others. */
int64_t surplus_layer(const graph *g, const char *base, const char *name);

/** Whether the layer of tensor number `tensor` predicts a further token from the hidden states of
 * the network, which do not depend on it (multi-token prediction). */
bool surplus_layer_predicts(const checkpoint *weights, int64_t tensor);

#endif
