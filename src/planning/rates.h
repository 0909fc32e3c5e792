/* How many samples a first part of a run takes. */
#ifndef GRAIL_PLANNING_RATES_H
#define GRAIL_PLANNING_RATES_H

#include "base/status.h"

#include <grail/compress.h>

/** *out = `most` samples of those that the options name, or all where there are fewer; `most` where
 * they name none. The options have a session. */
grail_status samples_at_most(const grail_compress_options *options, int64_t most,
                             int64_t *out) GRAIL_MUST_CHECK;

#endif
