/* The optimiser: Adam on some parameters of a store, with rates relative to their sizes.
 *
 * While it exists, the store holds unrounded weights. What it keeps has been rounded to the dtypes
 * of the checkpoint before it was judged, so that what comes out is what was measured. */
#ifndef GRAIL_HEAL_OPTIMIZER_H
#define GRAIL_HEAL_OPTIMIZER_H

#include "comm/comm.h"
#include "exec/tape.h"

/** One parameter that is trained. */
typedef struct trained_parameter {
    int index;
    double size;          /* of its values at the start (docs/numerics.md, Steps) */
    matrix first, second; /* moments, owned */
    matrix best;          /* rounded values of the best state so far, owned */
} trained_parameter;

typedef struct optimizer {
    parameter_store *parameters; /* borrowed; has own entries of all trained parameters */
    gradient_store *gradients;   /* owned; of the trained parameters */
    trained_parameter *of;       /* [count], owned */
    matrix *sums;                /* [count] of the gradients of a step's parts so far, owned */
    int count;
    int64_t steps;   /* taken */
    int64_t changes; /* of the values that the store has: of how many they are the result */
    int64_t ordered; /* after how many of them weights were ordered */
    int parts;       /* whose gradients are in the sums */
} optimizer;

/** Which parameters of nodes [begin, end) can be trained: all but the moments of a BatchNorm, and
 * tables of embeddings that nothing else reads. Sets trained[parameter_count] to true for them. */
void optimizer_mark_trainable(const graph *g, int begin, int end, bool *trained);

/** Orders the trained weights that Linears alone read, for products, where the values have changed
 * since: once for all parts of a step. They take half of the values' memory until the end. */
grail_status optimizer_order_weights(optimizer *o, const graph *g) GRAIL_MUST_CHECK;

/** Gives the store own, unchanged entries of the parameters trained[parameter_count]. *out is
 * owned: optimizer_free. The current values are the best so far. */
grail_status optimizer_create(const graph *g, parameter_store *parameters, const bool *trained,
                              optimizer **out) GRAIL_MUST_CHECK;
void optimizer_free(optimizer *o); /* NULL is allowed */

/** Adds the gradients of a part of a step's samples to those of the parts before it: one part of
 * each rank below `ranks`, in the order of ranks. So the bits follow from the parts, not from who
 * takes which. The gradients are zero afterwards. All ranks call it; the sums are rank 0's. */
grail_status optimizer_add_parts(optimizer *o, const grail_comm *c, int ranks) GRAIL_MUST_CHECK;
/** Makes the sums the gradients, on all ranks, and begins new ones. */
grail_status optimizer_take_sums(optimizer *o, const grail_comm *c) GRAIL_MUST_CHECK;
/** Forgets the parts of a step that is not taken. */
grail_status optimizer_drop_parts(optimizer *o) GRAIL_MUST_CHECK;

/** Takes a step with the gradients, at this rate times the size of each parameter, and clears them.
 */
grail_status optimizer_step(optimizer *o, double rate) GRAIL_MUST_CHECK;

/** Puts rounded values in place of the weights, to be judged; the gradients are lost. Then either
 * keeps them as the best so far or not, and goes back to the weights. */
grail_status optimizer_begin_judgement(optimizer *o) GRAIL_MUST_CHECK;
grail_status optimizer_end_judgement(optimizer *o, bool is_best) GRAIL_MUST_CHECK;

/** Puts the best values in place of the weights. */
grail_status optimizer_finish(optimizer *o) GRAIL_MUST_CHECK;

/** Likewise, and forgets all steps and gradients. */
grail_status optimizer_restart(optimizer *o) GRAIL_MUST_CHECK;

#endif
