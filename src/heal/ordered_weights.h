/* The weights of a training in the order in which a backend multiplies by them. Values are ordered
 * before each product otherwise, once for every part of a step's samples. */
#ifndef GRAIL_HEAL_ORDERED_WEIGHTS_H
#define GRAIL_HEAL_ORDERED_WEIGHTS_H

#include "heal/optimizer.h"

typedef struct ordered_weights {
    const optimizer *optimizer; /* borrowed */
    parameter_store *store;     /* a child of the optimiser's, owned; NULL: nothing is ordered */
    int64_t changes;            /* of the optimiser, that its entries are of */
} ordered_weights;

/** For the trained weights that Linears alone read, on a backend with an order of its own. They
 * take half of the memory of the values. ordered_weights_fini frees, even after a failure. */
grail_status ordered_weights_init(const optimizer *o, const graph *g,
                                  ordered_weights *out) GRAIL_MUST_CHECK;
void ordered_weights_fini(ordered_weights *w); /* works on a zeroed one */

/** Takes over what has changed since the last call. */
grail_status ordered_weights_update(ordered_weights *w) GRAIL_MUST_CHECK;

#endif
