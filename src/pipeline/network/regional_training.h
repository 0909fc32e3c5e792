/* Regional optimisation: a block is trained while the units that go are silent (docs/numerics.md,
 * The regression). */
#ifndef GRAIL_PIPELINE_NETWORK_REGIONAL_TRAINING_H
#define GRAIL_PIPELINE_NETWORK_REGIONAL_TRAINING_H

#include "exec/tape.h"
#include "pipeline/network/regional.h"

/** A block that is trained apart from the network, which keeps its own weights meanwhile. */
typedef struct regional_training {
    calibration_network *network; /* borrowed; its current stream waits before the block */
    region region;
    parameter_store *trained; /* owned; over the network's, with own entries of what is trained */
    gradient_store *gradients;
    matrix *moments;         /* [parameter_count] of the squared gradients, owned */
    grail_reducer **decided; /* [sites] by the trained weights; owned, NULL for other sites */
    tape *tape;
} regional_training;

/** The block's gradients are measured (regional.h). regional_training_fini frees, even after a
 * failure. */
grail_status regional_training_init(calibration_network *network, int block,
                                    regional_training *out) GRAIL_MUST_CHECK;
void regional_training_fini(regional_training *t); /* works on a zeroed one */

/** Decides the block's sites one after the other from the trained weights, on inputs in which the
 * units that earlier ones removed are silent, and makes the columns of removed units zero. */
grail_status regional_training_decide(regional_training *t) GRAIL_MUST_CHECK;

/** One step of RMSprop for each of 32 samples drawn for this round (all, where there are fewer), on
 * ||Y - T||_F^2: Y is the output of the trained block, T that of the network's, both of the current
 * stream. Columns that were made zero may move. */
grail_status regional_training_round(regional_training *t, int round) GRAIL_MUST_CHECK;

/** Mean over all samples of the region of ||Y - T||_F^2. */
grail_status regional_training_loss(const regional_training *t, double *out) GRAIL_MUST_CHECK;

/** Five rounds, each of which begins with a decision, and a last decision; then the sites are
 * decided, and the network has the trained weights, rounded as they will be stored. */
grail_status regional_train(calibration_network *network, int block) GRAIL_MUST_CHECK;

#endif
