/* Reports the progress of a run to its observer. */
#ifndef GRAIL_PIPELINE_NETWORK_PROGRESS_H
#define GRAIL_PIPELINE_NETWORK_PROGRESS_H

#include "pipeline/request/request.h"

typedef struct progress {
    double started;      /* seconds, monotonic */
    int blocks_replayed; /* blocks restored from their records before `started` */
} progress;

/** Starts the clock, after this many replayed blocks. */
progress progress_start(int blocks_replayed);

/** Tells the request's observer that a site is finished, or with `report` NULL that a block is.
 * Returns GRAIL_ERROR_CANCELLED when the observer asks to cancel. */
grail_status progress_tell(const progress *p, const compression_request *request, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;

#endif
