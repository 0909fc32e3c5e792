/* What an error at a site does to the output of the network, measured: the loss curves count
 * errors where they arise, and the same error matters more in one block than in another. */
#ifndef GRAIL_PLANNING_SLOT_WEIGHTS_H
#define GRAIL_PLANNING_SLOT_WEIGHTS_H

#include "pipeline/request/calibration.h"
#include "planning/widths.h"

#include <grail/plan.h>

/** How many of `count` samples, windows of `length` tokens or images, a trial takes that reads
 * `tokens` of a text; 0: the usual number. */
int64_t slot_weights_samples(const graph *g, int64_t tokens, int64_t length, int64_t count);

/** The options of such a trial: those of the run, without refits. */
grail_compress_options slot_trial_options(const graph *g, const calibration *samples,
                                          const grail_plan_options *options);

/** How many compressions of the whole network take about as long as the trials of `slots` slots
 * that read `part` of its samples. Before the block that is cut there is nothing to do, and behind
 * it a trial carries the judging quarter of its samples alone: an eighth of a compression, as
 * blocks lie in the middle of the network on average (SmolLM2-135M: 0.11, measured). */
double slot_weights_compressions(int slots, double part);

/** How the trials ended. */
typedef struct slot_trials {
    int count;    /* that were made */
    bool stopped; /* by the observer, or by the time */
} slot_trials;

/** weights[slot_count] of the slots' errors, so that their sum estimates the divergence of the
 * network's output: D_i / e_i(K_i), with D_i the divergence when slot i alone has K_i units, its
 * width by the uniform formula or the next below all units, repaired as `options` say but without
 * refits (docs/numerics.md, Budgets). Each trial is told to the observer of `options`; after it
 * asks to stop, or once the seconds of a search are over that began at `began`, the other slots get
 * the mean weight of those that were measured.
 */
grail_status slot_weights_measure(const width_space *space, const calibration *samples,
                                  const grail_plan_options *options, double began, double *weights,
                                  slot_trials *trials) GRAIL_MUST_CHECK;

#endif
