/* Where trials that narrow one site each begin. Before the first block that a trial cuts, both of
 * its networks are the dense one: its sample stream is carried once for all trials, from block to
 * block, and each takes a copy. */
#ifndef GRAIL_PLANNING_TRIAL_START_H
#define GRAIL_PLANNING_TRIAL_START_H

#include "pipeline/network/network.h"

typedef struct trial_start {
    const grail_compress_options *options; /* of the trials; borrowed */
    const int64_t *units;                  /* [sites] widths of the dense network; borrowed */
    compression_request *request;          /* nothing is cut in it; NULL before the first trial */
    calibration_network *network;          /* its current sample stream waits before a block */
} trial_start;

/** These options for runs that are only judged: without an output and observers. */
grail_compress_options trial_options(const grail_compress_options *options);

/** Puts the sample streams of a trial that has not run before the first block that it cuts. They
 * stay before node 0 where the trial takes statistics of the dense network first, cuts outside the
 * blocks, begins before a block that an earlier one reached, or has no session, whose backend both
 * networks need. *s has its first two members, and
 * is zeroed else; trial_start_fini frees what it makes. */
grail_status trial_start_give(trial_start *s, calibration_network *trial) GRAIL_MUST_CHECK;

void trial_start_fini(trial_start *s);

#endif
