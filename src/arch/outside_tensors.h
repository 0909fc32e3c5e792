/* Tensors of a checkpoint that are no weights of any network. */
#ifndef GRAIL_ARCH_OUTSIDE_TENSORS_H
#define GRAIL_ARCH_OUTSIDE_TENSORS_H

#include "tensor/tensor.h"

#include <stdbool.h>

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

#endif
