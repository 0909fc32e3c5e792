/* Decides whether the inputs of the consumers are kept in memory for all samples. */
#ifndef GRAIL_PIPELINE_NETWORK_KEEPING_H
#define GRAIL_PIPELINE_NETWORK_KEEPING_H

#include "pipeline/request/request.h"

/** Whether the widest input of a consumer fits in `memory` bytes for all samples; 0 = half of the
 * memory that is free now. */
grail_status activations_fit(const compression_request *request, int64_t memory,
                             bool *out) GRAIL_MUST_CHECK;

#endif
