/* How far a narrowed network is from the dense one on the samples that were kept apart. */
#ifndef GRAIL_PLANNING_JUDGE_H
#define GRAIL_PLANNING_JUDGE_H

#include "planning/trial_start.h"

/** After the last block of a run that judges: the mean KL(dense || narrow) of the outputs over all
 * rows of the batches that judge; for a network that outputs features, their squared distance
 * relative to the dense ones. */
grail_status judge_divergence(calibration_network *network, double *out) GRAIL_MUST_CHECK;

/** Runs a compression with these widths (kept[sites]) in memory, and judges it, unless the session
 * of the options knows how it was judged. It begins at `start`, which has the same options; with
 * NULL before node 0. The result is the same. */
grail_status judge_widths(const grail_compress_options *options, const int64_t *kept,
                          trial_start *start, double *out) GRAIL_MUST_CHECK;

#endif
