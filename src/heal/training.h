/* The loop of a training: steps on some samples, judged on others that no step sees; with which
 * rate each is taken, and on which samples. */
#ifndef GRAIL_HEAL_TRAINING_H
#define GRAIL_HEAL_TRAINING_H

#include "heal/optimizer.h"

#include <grail/compress.h>

typedef struct training_options {
    const grail_heal_options
        *chosen;            /* borrowed; its rate and time are those of several trainings */
    double rate;            /* largest, as a share of a parameter's root mean square */
    double seconds;         /* with judgements, from the call on; infinity: no limit */
    int64_t batch;          /* samples of a step */
    uint64_t seed;          /* of their order */
    const int64_t *samples; /* [sample_count] that steps may see */
    int64_t sample_count;
    int64_t judged;         /* samples of a judgement, 1 or more */
    const grail_comm *comm; /* ranks that train together, by the clock of rank 0; or NULL */
} training_options;

enum { TRAINING_GROUPS = 16 };

/** A loss over the samples that no step sees: its sums, and the rows (or samples) that they are of,
 * in up to TRAINING_GROUPS runs of samples that are the same in every judgement. Groups without
 * rows are none. */
typedef struct judged_loss {
    double sum[TRAINING_GROUPS], rows[TRAINING_GROUPS];
} judged_loss;

/** The mean; 0 of no rows. */
double judged_loss_mean(const judged_loss *l);

/** Where a training stands. Losses are means over rows (or samples). */
typedef struct training_state {
    int64_t steps;           /* taken */
    int64_t best_step;       /* whose values are the best so far; 0: the values at the start */
    int64_t judgements_lost; /* since the best one, or since the training began again */
    bool began_again;        /* with a lower rate */
    int64_t begun_step;      /* at which it did; 0 otherwise */
    double begun_progress;   /* share of the training that was done then */
    judged_loss start;       /* of the values at the start */
    double held_before, held_best; /* loss of the samples that no step sees */
    double held_worst, held_last;  /* the largest since the best one, or what was no number; and
                                      the last */
    double seen_before;            /* of those that steps see, at the start; the caller's */
    double seconds;                /* since the first judgement */
} training_state;

/** What is trained, on what. */
typedef struct training_task {
    /** Adds the gradients of the mean loss over these samples to those of the optimiser. */
    grail_status (*add_gradients)(void *user, int64_t step, const int64_t *samples, int64_t count);
    /** The loss over the samples that no step sees; *out is zeroed. */
    grail_status (*judge)(void *user, judged_loss *out);
    /** Called after each judgement, when the optimiser holds its weights again; may save them.
     * GRAIL_ERROR_CANCELLED ends the training. */
    grail_status (*tell)(void *user, const training_state *state);
    void *user;
} training_task;

/** The share of the largest rate at `progress` in 0 .. 1 of a training: it rises evenly over the
 * first tenth and falls along half a cosine to 0 (Loshchilov and Hutter 2017, with warm-up). */
double rate_share(double progress);

/** Writes the samples of one step to out[count]: `step` counts from 0, and every sample is taken
 * once before one is taken again, in an order drawn anew from the seed for each round. count must
 * not exceed sample_count. */
grail_status samples_of_step(uint64_t seed, int64_t step, int64_t sample_count,
                             const int64_t *samples, int64_t count, int64_t *out) GRAIL_MUST_CHECK;

/** What a step on so many samples is expected to take, where judging one takes `judged` seconds. */
double training_step_expected(double judged, int64_t batch);

/**
 * Trains until the steps are used up, until another step and its judgement would not end within
 * the seconds, until half of the judgements found nothing better (three quarters where the loss
 * comes back to the best one), or until a step or a judgement fails with GRAIL_ERROR_NUMERIC. Where
 * nothing was better than the start until then, it begins again there, once, with an eighth of the
 * rate and what is left of the steps. At the end the store holds the
 * best values that were judged: those of the start when nothing was better by more than chance
 * (docs/numerics.md, Healing). `state` is zeroed (but
 * for seen_before) for a new training, or where a saved one stood. A loss at the start that is NaN
 * or infinite is GRAIL_ERROR_NUMERIC.
 */
grail_status training_run(const training_options *options, const training_task *task, optimizer *o,
                          training_state *state) GRAIL_MUST_CHECK;

#endif
