/* A Linear and a LayerNorm by hand, whose parameters are trained without running them. */
#ifndef GRAIL_TESTS_HEAL_HAND_TRAINING_H
#define GRAIL_TESTS_HEAL_HAND_TRAINING_H

#include "../exec/hand_network.h"
#include "heal/optimizer.h"
#include "support/owned.h"

enum { HAND_PARAMETERS = 4, HAND_MOST = 12 };

/** Parameters, in order: the weight [4, 3] and the bias [4] of the Linear, those [4] of the norm.
 */
typedef struct hand_training {
    hand_network n;         /* with the dense store */
    parameter_store *store; /* on top of it, empty */
    optimizer *o;           /* of all parameters */
} hand_training;

/** `stored` is the dtype that every parameter is said to be stored as. */
void hand_training_init(hand_training *h, backend *b, grail_dtype stored);
void hand_training_fini(hand_training *h);

int64_t hand_count(const hand_training *h, int parameter);
/** Values of a parameter seen through the store: out[its count]. */
void hand_values(const hand_training *h, int parameter, double *out);
/** Adds values[its count] to the gradient of a parameter. */
void hand_add_gradient(const hand_training *h, int parameter, const double *values);

OWNS(hand_training, hand_training_fini)

#endif
