/* How far a run has come, for its observer. */
#ifndef GRAIL_PIPELINE_NETWORK_PROGRESS_H
#define GRAIL_PIPELINE_NETWORK_PROGRESS_H

#include "pipeline/request/request.h"

typedef struct progress {
    double started;      /* seconds, monotonic */
    int blocks_replayed; /* before that, from their records */
} progress;

/** From now on, behind so many replayed blocks. */
progress progress_start(int blocks_replayed);

/** Tells the request's observer of a site, or with `report` NULL that a block is finished; its wish
 * to cancel is GRAIL_ERROR_CANCELLED. */
grail_status progress_tell(const progress *p, const compression_request *request, int block,
                           const grail_site_report *report) GRAIL_MUST_CHECK;

#endif
