/* How many samples a first part of a run takes. */
#ifndef GRAIL_PLANNING_RATES_H
#define GRAIL_PLANNING_RATES_H

#include "base/status.h"

#include <grail/compress.h>

/** What samples the options name. */
typedef struct named_samples {
    int64_t count;
    int64_t drawn;  /* of these, that the network draws itself */
    int64_t length; /* tokens of a window */
} named_samples;

/** `most` samples of those that the options name, or all where there are fewer; with 0 as many as a
 * run takes; `most` where they name none. The options have a session. */
grail_status samples_at_most(const grail_compress_options *options, int64_t most,
                             named_samples *out) GRAIL_MUST_CHECK;

#endif
