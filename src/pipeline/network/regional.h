/* Regional gradients: how much the output of a block changes with the weights that read its sites
 * (docs/numerics.md, Scores). Regional optimisation: a block is trained while the units that go are
 * silent (docs/numerics.md, The regression). */
#ifndef GRAIL_PIPELINE_NETWORK_REGIONAL_H
#define GRAIL_PIPELINE_NETWORK_REGIONAL_H

#include "exec/tape.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/pass.h"

/** A block as a map from what lives before it to what it leaves behind it. */
typedef struct region {
    const cutting *cut;    /* borrowed */
    sample_passes *passes; /* whose current sample stream waits before the block; borrowed */
    int block, begin, end; /* nodes */
    int *outputs;          /* [output_count] values made in the block and read behind it; owned */
    int output_count;
    int64_t *samples; /* [sample_count] those that the fit may use, the ones that it holds out
                         included; owned */
    int64_t sample_count;
} region;

/** region_fini frees, even after a failure. */
grail_status region_init(const cutting *cut, sample_passes *passes, int block,
                         region *out) GRAIL_MUST_CHECK;
void region_fini(region *r); /* works on a zeroed one */

/** Puts one sample before the block into an execution. */
grail_status region_place(const region *r, int64_t sample, execution *e) GRAIL_MUST_CHECK;

/**
 * Measures, for each consumer of the block's sites whose selector needs it, G[outputs, inputs]:
 *
 *   G = sqrt((1/N) sum_n (dL_n/dW)^2), L_n = ||Y_n||_F,
 *
 * Y_n all values that sample n leaves behind the block, over the samples of the region. The current
 * sample stream waits before the block, whose weights are those that it has then. Does nothing
 * where no selector needs them. A norm that is not finite is GRAIL_ERROR_NUMERIC naming the block
 * and the sample.
 */
grail_status regional_gradients_measure(const cutting *cut, sample_passes *passes, int block,
                                        regional_gradients *out) GRAIL_MUST_CHECK;

/** A block that is trained apart from the network, which keeps its own weights meanwhile. */
typedef struct regional_training {
    region region;
    const regional_gradients *measured; /* of the block; borrowed */
    parameter_store *trained; /* owned; over the network's, with own entries of what is trained */
    gradient_store *gradients;
    matrix *moments;         /* [parameter_count] of the squared gradients, owned */
    grail_reducer **decided; /* [sites] by the trained weights; owned, NULL for other sites */
    tape *tape;
} regional_training;

/** regional_training_fini frees, even after a failure. */
grail_status regional_training_init(const cutting *cut, sample_passes *passes, int block,
                                    const regional_gradients *measured,
                                    regional_training *out) GRAIL_MUST_CHECK;
void regional_training_fini(regional_training *t); /* works on a zeroed one */

/** Decides the block's sites one after the other from the trained weights, on inputs in which the
 * units that earlier ones removed are silent, and makes the columns of removed units zero. */
grail_status regional_training_decide(regional_training *t) GRAIL_MUST_CHECK;

/** One step of RMSprop for each of 32 samples drawn for this round (all, where there are fewer), on
 * ||Y - T||_F^2: Y is the output of the trained block, T that of the network's, both of the current
 * stream. Columns that were made zero may move. */
grail_status regional_training_round(regional_training *t, int round) GRAIL_MUST_CHECK;

/** Five rounds, each of which begins with a decision, and a last decision; then results[sites] has
 * the decisions, and the current network the trained weights, rounded as they will be stored. */
grail_status regional_train(const cutting *cut, sample_passes *passes, int block,
                            const regional_gradients *measured,
                            site_result *results) GRAIL_MUST_CHECK;

#endif
