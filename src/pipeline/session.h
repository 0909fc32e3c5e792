/* What runs on one checkpoint share: the opened model, and the dense network's statistics of an
 * open loop. Not to be used by two threads at once. */
#ifndef GRAIL_PIPELINE_SESSION_H
#define GRAIL_PIPELINE_SESSION_H

#include "arch/model.h"
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
    char *calibration;          /* which samples the statistics are of; owned, NULL = none */
    dense_statistics *of_nodes; /* [node_count] */
};

/** Forgets the statistics unless they are of these samples. */
grail_status session_use_calibration(grail_session *s, const json_t *description,
                                     uint64_t seed) GRAIL_MUST_CHECK;

#endif
