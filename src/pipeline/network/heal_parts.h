/* The samples of a step, or of a judgement, in parts: the gradients of a part are taken by
 * themselves and then added to those of the parts before it, so the bits follow from the parts. The
 * ranks take the parts in turns. All functions here are called by all ranks. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_PARTS_H
#define GRAIL_PIPELINE_NETWORK_HEAL_PARTS_H

#include "heal/optimizer.h"
#include "pipeline/network/heal_input.h"

/** What a mean loss over rows is made of. */
typedef struct heal_loss {
    /* Called on all ranks for each part of a turn: what `runner` computes by itself beforehand and
     * keeps for later turns. May be NULL. */
    grail_status (*prepare)(void *user, const sample_part *part, int runner);
    /* Called on all ranks for each part of a turn: gives what other ranks hold to `runner`. */
    grail_status (*place)(void *user, const sample_part *part, int runner);
    /* Called on the runner: adds the loss of all rows of the part to *sum, and their number to
     * *rows. Where `mean_over` is above 0, the gradients of the part's loss as a term of the mean
     * over so many samples are added to those of the optimiser. */
    grail_status (*run)(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        double *sum, int64_t *rows);
    void *user;
} heal_loss;

typedef struct heal_parts {
    const grail_comm *comm; /* borrowed */
    int64_t size;           /* samples of a part, of which the last one may have less */
    heal_loss loss;
    optimizer *optimizer; /* borrowed */
} heal_parts;

/** Samples of a part of a step of so many: a quarter, so that four ranks have work. */
int64_t heal_part_samples(int64_t batch);

/** Adds the gradients of the mean loss over samples[count] to those of the optimiser, which are 0.
 * Where one rank fails, all do. */
grail_status heal_parts_add_gradients(const heal_parts *p, int64_t step, const int64_t *samples,
                                      int64_t count) GRAIL_MUST_CHECK;
grail_status heal_parts_mean(const heal_parts *p, const int64_t *samples, int64_t count,
                             double *loss) GRAIL_MUST_CHECK;

#endif
