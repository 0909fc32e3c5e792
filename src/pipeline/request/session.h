/* What runs on one checkpoint share: the opened model, the samples, and the dense network's
 * statistics of an open loop. Not to be used by two threads at once. */
#ifndef GRAIL_PIPELINE_REQUEST_SESSION_H
#define GRAIL_PIPELINE_REQUEST_SESSION_H

#include "arch/model.h"
#include "backend/backend.h"
#include "pipeline/request/calibration.h"
#include "stats/statistics.h"

#include <grail/compress.h>

/** Of the dense network at one node's input. */
typedef struct dense_statistics {
    grail_statistics *fit, *held; /* owned; of patches where `taps` > 1 */
    int64_t taps;
    double *squares; /* [width] sums of squares of the input's features; owned */
} dense_statistics;

struct grail_session {
    grail_model *model;
    calibration *samples; /* of the run opened last that needed some; held, NULL = none yet */
    json_t *samples_key;  /* what they were asked for with, owned */
    calibration *counted; /* what the statistics are of; held, NULL = none yet */
    const backend *counted_by;
    dense_statistics *of_nodes; /* [node_count], taken by open_loop.c of the run that needs them */
};

/** The samples that the options name: those at hand, or read anew. *out is held for the caller:
 * calibration_release. */
grail_status session_calibration(grail_session *s, const grail_compress_options *options,
                                 calibration **out) GRAIL_MUST_CHECK;
/** Forgets the statistics unless they are of these samples, taken by this backend. */
void session_count(grail_session *s, calibration *samples, const backend *by);

#endif
