/* Trials of a plan: compressions in memory, judged by how far the narrowed network is from the
 * dense one on the samples that were kept apart. */
#ifndef GRAIL_PLANNING_TRIALS_H
#define GRAIL_PLANNING_TRIALS_H

#include "planning/judgement.h"

#include <grail/plan.h>

/** Whether the samples make the four batches of which some judge. */
bool trials_can_judge(const calibration *samples);
/** GRAIL_ERROR_ARGUMENT where they do not. */
grail_status trials_check_batches(const calibration *samples) GRAIL_MUST_CHECK;

/** Where trials that narrow one site each begin. Before the first block that a trial cuts, both of
 * its networks are the dense one: its sample stream is carried once for all trials, from block to
 * block, and each takes a copy. */
typedef struct trial_start {
    const grail_compress_options *options; /* of the trials; borrowed */
    const int64_t *units;                  /* [sites] widths of the dense network; borrowed */
    compression_request *request;          /* nothing is cut in it; NULL before the first trial */
    calibration_network *network;          /* its current sample stream waits before a block */
    dense_record record;                   /* of its outputs, which no trial computes again */
} trial_start;

/** Puts the sample streams of a trial that has not run before the first block that it cuts. They
 * stay before node 0 where the trial takes statistics of the dense network first, cuts outside the
 * blocks, begins before a block that an earlier one reached, or has no session, whose backend both
 * networks need. *s has its first two members, and
 * is zeroed else; trial_start_fini frees what it makes. */
grail_status trial_start_give(trial_start *s, calibration_network *trial) GRAIL_MUST_CHECK;

void trial_start_fini(trial_start *s);

/** Runs a compression with these widths (kept[sites]) in memory, and judges it, unless the session
 * of the options knows how it was judged. It begins at `start`, which has the same options and is
 * judged as those that choose; with NULL before node 0. The result is the same. divergence_fini
 * frees *out, even after a failure. */
grail_status judge_widths(const grail_compress_options *options, const int64_t *kept, judging which,
                          trial_start *start, divergence *out) GRAIL_MUST_CHECK;

/** Tells the observer of `options` of a trial. *stopped becomes true where it, or the seconds of a
 * search that began at `began`, say on rank 0 that no other trial may begin. */
grail_status trials_tell(const grail_plan_options *options, double began,
                         const grail_plan_trial *trial, bool *stopped) GRAIL_MUST_CHECK;

#endif
