/* One training of a run, of a block or of the network: the samples that it sees and those that it
 * is judged by, how long it lasts, and what becomes known of it. Several ranks train together: each
 * has all weights and takes the same steps, and they share out the samples (heal_parts.h). */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_TRAINING_H
#define GRAIL_PIPELINE_NETWORK_HEAL_TRAINING_H

#include "heal/training.h"
#include "pipeline/network/heal_parts.h"
#include "pipeline/network/network.h"

/** Saves where a training stands and restores it; both may be NULL, as on ranks that write nothing.
 * `restore` leaves *state alone where nothing was saved. */
typedef struct heal_memory {
    grail_status (*save)(void *user, const optimizer *o, const training_state *state);
    grail_status (*restore)(void *user, optimizer *o, training_state *state);
    void *user;
} heal_memory;

typedef struct heal_training {
    calibration_network *network; /* borrowed */
    int block, last_block;        /* GRAPH_NONE: the whole network */
    double rate;
    double seconds; /* from `begun` on, when its set-up did */
    double begun;
    /* More samples to be seen lower the loss of new samples more than a sharper judgement does, so
     * only a sixteenth of the windows or an eighth of the images is held out, at least 8 or 16
     * where that is no more than a quarter. They are the first ones of the batches that the fit
     * holds out; samples that judge the result (request.h) are neither. With no batch held out, all
     * are both.
     */
    int64_t *seen, *held; /* owned */
    int64_t seen_count, held_count;
    int64_t *shown; /* [shown_count] as many seen ones as are held out, whose loss is told; owned */
    int64_t shown_count;
    optimizer *optimizer; /* owned; of what is trained in the current network */
    heal_memory memory;
    heal_parts parts; /* with what is trained: its loss */
} heal_training;

/** Sets up the training of blocks `block` to `last_block` (GRAPH_NONE: the whole network), which
 * are nodes [begin, end) of the current network, without dropped sublayers, which have no
 * parameters in the result. The caller sets rate, seconds, begun, memory and parts.loss.
 * heal_training_fini frees. */
grail_status heal_training_init(calibration_network *network, int block, int last_block, int begin,
                                int end, heal_training *t) GRAIL_MUST_CHECK;
void heal_training_fini(heal_training *t); /* works on a zeroed one */

/** Trains, tells the run's observer after each judgement and at the end, and adds the result to the
 * healings of the network; its losses are NaN where the time does not suffice for a step.
 * GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status heal_training_run(heal_training *t) GRAIL_MUST_CHECK;
/** Tells, and adds to the healings, that blocks are not trained because the time is over. */
grail_status heal_training_skip(calibration_network *network, int block,
                                int last_block) GRAIL_MUST_CHECK;

#endif
