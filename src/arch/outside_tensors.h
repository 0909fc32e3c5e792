/* Tensors of a checkpoint that are no weights of any network, or of layers beyond the number that a
 * network is described with. */
#ifndef GRAIL_ARCH_OUTSIDE_TENSORS_H
#define GRAIL_ARCH_OUTSIDE_TENSORS_H

#include "arch/architecture.h"

typedef struct outside_kind {
    const char *what; /* such as "masks of attention"; NULL: it is not remarked, as what stock
                         classes write today */
    bool is_left_out; /* results lack them, since stock classes do; otherwise they are copied */
} outside_kind;

extern const outside_kind outside_kinds[OUTSIDE_PARTS];

/** What a tensor is that has this name in its network; OUTSIDE_REFUSED for one that may be a
 * weight. */
outside_part outside_part_of(const char *name, const tensor_view *tensor);

/** The layer of a tensor, counted from 0, by its name behind the network's prefix, if tensors of
 * the graph are called like it behind `base` with the number of another layer, and none has so high
 * a one; -1 of others. */
int64_t surplus_layer(const graph *g, const char *base, const char *name);

/** Whether the layer of tensor number `tensor` predicts a further token from the hidden states of
 * the network, which do not depend on it (multi-token prediction). */
bool surplus_layer_predicts(const checkpoint *weights, int64_t tensor);

#endif
