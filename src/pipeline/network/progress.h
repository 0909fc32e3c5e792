/* Reports the progress of a run to its observer. */
#ifndef GRAIL_PIPELINE_NETWORK_PROGRESS_H
#define GRAIL_PIPELINE_NETWORK_PROGRESS_H

#include "graph/graph.h"

#include <grail/compress.h>

typedef struct progress {
    grail_compress_observer observer; /* NULL: nobody is told */
    grail_step_observer step_observer;
    void *user;         /* of both */
    const graph *graph; /* whose blocks are counted */
    int64_t batches;
    double started;      /* seconds, monotonic */
    int blocks_replayed; /* blocks restored from their records before `started` */
    int block;           /* of `reached` */
    double reached;      /* part of the block that was told last */
} progress;

/** Starts the clock, after this many replayed blocks. */
void progress_start(progress *p, int blocks_replayed);

/** GRAIL_ERROR_CANCELLED with a text that counts blocks from 1; `block` counts from 0, and lies
 * outside the blocks before and behind them. `ended`: the block is finished. */
grail_status progress_cancelled(int block, int blocks, bool ended) GRAIL_MUST_CHECK;

/** Tells the observer that a site is finished, or with `report` NULL that a block is. Returns
 * GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_tell(const progress *p, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;

/** Tells the observer of steps that this batch and those before it have passed nodes [from, to), as
 * the part of all batches that they are. Nothing is told outside the blocks, or of what was passed
 * before. Returns GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_step(progress *p, int from, int to, int64_t batch) GRAIL_MUST_CHECK;

/** Tells the observer of steps how much of a work before the blocks (GRAIL_STEP_...) is done.
 * Returns GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_before(const progress *p, int work, double done) GRAIL_MUST_CHECK;

#endif
