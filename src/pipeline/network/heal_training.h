/* One training of a run, of blocks or of the network: the samples that it sees and those that it
 * is judged by, how long it lasts, and what becomes known of it. Several ranks train together: each
 * has all weights and takes the same steps, and they share out the samples.
 *
 * The samples of a step, or of a judgement, are gone through in parts: the gradients of a part are
 * taken by themselves and then added to those of the parts before it, so the bits follow from the
 * parts. A device, whose calls cost more than some rows, takes larger parts, and goes on with half
 * of them where its memory is full. These are no visits of
 * a pass (pass.h): steps draw their samples in an order of their own, and judgements, which take a
 * few samples of each batch, go by the same parts as steps do. */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_TRAINING_H
#define GRAIL_PIPELINE_NETWORK_HEAL_TRAINING_H

#include "heal/training.h"
#include "pipeline/network/network.h"

/** What the trainings of a run work on. It reads all of it, and changes the parameters of the
 * current network and the list of what was made. Borrowed, but for `usable`. */
typedef struct heal_setting {
    const network_run *dense;   /* what the current network is trained towards; of the teacher */
    const network_run *current; /* has its narrow shapes */
    const graph *wide;          /* of the current one before it was cut */
    backend *backend;
    matrix_pool *pool;
    const grail_comm *comm; /* ranks that train together; NULL: one */
    const site_list *sites;
    const plan *plan;
    const heal_options *options;
    int64_t memory; /* for what is kept; 0: half of what is free */
    int64_t
        *at_most; /* of the passes: samples at once that a full device has left; 0: any number */
    const calibration *samples;
    int64_t *usable; /* [usable_count] samples that do not judge the result, ascending; owned */
    int64_t usable_count;
    grail_heal_observer observer; /* may be NULL */
    void *observer_user;
    healing_list *made;
} heal_setting;

/** A part of some samples that is run at once; all have equal positions. */
typedef struct sample_part {
    const int64_t *samples; /* [count] */
    int64_t count;
} sample_part;

batch_shape part_shape(const calibration *samples, const sample_part *part);

/** Samples that are worth a call of the backend: more than one on a device that is not full. */
int64_t samples_at_once(const heal_setting *s);

/** By what the gradients of a part's loss are multiplied, which has `rows` rows for each sample, as
 * a term of the mean over so many samples. In F16 they are larger by a power of two, the same for
 * all steps, which keeps them from vanishing; the steps of Adam do not depend on it. */
double step_scale(const heal_setting *s, int64_t mean_over, int64_t rows);

/** For what a step runs forward, whose values a device does not search one by one: the outputs,
 * which tell of all, are watched instead. */
bool steps_are_unwatched(const heal_setting *s);
grail_status watch_step(const heal_setting *s, int64_t step, matrix outputs) GRAIL_MUST_CHECK;

/** What a mean loss over rows is made of. */
typedef struct heal_loss {
    /* Called on all ranks for each part of a turn: what `runner` computes by itself beforehand and
     * keeps for later turns. May be NULL. */
    grail_status (*prepare)(void *user, const sample_part *part, int runner);
    /* Called on all ranks for each part of a turn: gives what other ranks hold to `runner`. */
    grail_status (*place)(void *user, const sample_part *part, int runner);
    /* Called on the runner: adds the loss of all rows of the part to sum[1, 1], where there is one,
     * and their number to *rows. It reads nothing of a device: who called it settles. Where
     * `mean_over` is above 0, the gradients of the part's loss as a term of the mean over so many
     * samples are added to those of the optimiser. */
    grail_status (*run)(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        matrix sum, int64_t *rows);
    /* Gives the memory back that a run which failed holds. */
    grail_status (*drop)(void *user);
    void *user;
} heal_loss;

/** Saves where a training stands and restores it; both may be NULL, as on ranks that write nothing.
 * `restore` leaves *state alone where nothing was saved. */
typedef struct heal_memory {
    grail_status (*save)(void *user, const optimizer *o, const training_state *state);
    grail_status (*restore)(void *user, optimizer *o, training_state *state);
    void *user;
} heal_memory;

typedef struct heal_training {
    const heal_setting *setting; /* borrowed */
    int block, last_block;       /* GRAPH_NONE: the whole network */
    int region;                  /* of grail_healing */
    double rate;
    double seconds; /* from `begun` on, when its set-up did */
    double begun;
    double until; /* by clock_seconds, when the training has to be over; or infinity */
    /* More samples to be seen lower the loss of new samples more than a sharper judgement does, so
     * only a sixteenth of the windows or an eighth of the images is held out, at least 8 or 16
     * where that is no more than a quarter. They are the first ones of the batches that the fit
     * holds out. With no batch held out, all are both. */
    int64_t *seen, *held; /* owned */
    int64_t seen_count, held_count;
    int64_t *shown; /* [shown_count] as many seen ones as are held out, whose loss is told; owned */
    int64_t shown_count;
    /* Samples of each part of a step, or of a judgement, but the last, which may have less. */
    int64_t part_samples, judged_samples;
    optimizer *optimizer; /* owned; of what is trained in the current network */
    bool streams; /* weights and what the optimiser keeps lie in host memory, since a device has no
                     room for them: each section's come up for its turn */
    heal_memory memory;
    double saved_at, save_took; /* seconds, of the last save; 0: none yet */
    heal_loss loss;
} heal_training;

/** *out[parameter_count], owned even after a failure: which parameters of nodes [begin, end) are
 * trained, without those of dropped sublayers, which the result has not. */
grail_status mark_trained(const graph *g, const site_list *sites, const plan *p, int begin, int end,
                          bool **out) GRAIL_MUST_CHECK;

/** Sets up the training of blocks `block` to `last_block` (GRAPH_NONE: the whole network), which
 * are nodes [begin, end) of the current network. The caller sets rate, seconds, begun, memory and
 * loss. heal_training_fini frees, even after a failure. */
grail_status heal_training_init(const heal_setting *s, int block, int last_block, int begin,
                                int end, heal_training *t) GRAIL_MUST_CHECK;
void heal_training_fini(heal_training *t); /* works on a zeroed one */

/** Trains, tells the run's observer after each judgement and at the end, and adds the result to
 * what was made; its losses are NaN where the time does not suffice for a step.
 * GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status heal_training_run(heal_training *t) GRAIL_MUST_CHECK;
/** Tells, and adds to what was made, that blocks are not trained because the time is over, or of
 * the region `stop` (grail_healing) above 0. */
grail_status heal_training_skip(const heal_setting *s, int block, int last_block,
                                int stop) GRAIL_MUST_CHECK;

#endif
