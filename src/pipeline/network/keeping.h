/* Whether there is memory to keep what the consumers read, for all samples. */
#ifndef GRAIL_PIPELINE_NETWORK_KEEPING_H
#define GRAIL_PIPELINE_NETWORK_KEEPING_H

#include "pipeline/request/request.h"

/** Whether the widest input of a consumer, for all samples, fits in `memory` bytes; 0 = half of
 * what is free now. */
grail_status activations_fit(const compression_request *request, int64_t memory,
                             bool *out) GRAIL_MUST_CHECK;

#endif
