/* Reports the progress of a run to its observer. */
#ifndef GRAIL_PIPELINE_NETWORK_PROGRESS_H
#define GRAIL_PIPELINE_NETWORK_PROGRESS_H

#include "pipeline/request/request.h"

typedef struct progress {
    double started;      /* seconds, monotonic */
    int blocks_replayed; /* blocks restored from their records before `started` */
    int block;           /* of `reached` */
    double reached;      /* part of the block that was told last */
} progress;

/** Starts the clock, after this many replayed blocks. */
progress progress_start(int blocks_replayed);

/** GRAIL_ERROR_CANCELLED with a text that counts blocks from 1; `block` counts from 0, and lies
 * outside the blocks before and behind them. `ended`: the block is finished. */
grail_status progress_cancelled(int block, int blocks, bool ended) GRAIL_MUST_CHECK;

/** Tells the request's observer that a site is finished, or with `report` NULL that a block is.
 * Returns GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_tell(const progress *p, const compression_request *request, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;

/** Tells the request's observer of steps that this batch and those before it have passed nodes
 * [from, to), as the part of all batches that they are. Nothing is told outside the blocks, or of
 * what was passed before. Returns GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_step(progress *p, const compression_request *request, int from, int to,
                           int64_t batch) GRAIL_MUST_CHECK;

#endif
