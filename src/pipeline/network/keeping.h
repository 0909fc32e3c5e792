/* Decides what is kept in memory instead of being computed again. */
#ifndef GRAIL_PIPELINE_NETWORK_KEEPING_H
#define GRAIL_PIPELINE_NETWORK_KEEPING_H

#include "pipeline/request/calibration.h"
#include "pipeline/request/cuts.h"

/** Whether so many bytes of an instance fit in `memory`; 0 = half of its room now. */
bool bytes_fit(const backend *b, double bytes, int64_t memory);

/** Whether the widest input of a consumer fits in `memory` bytes for all samples. */
grail_status activations_fit(const cutting *cut, const calibration *samples, const backend *b,
                             int64_t memory, bool *out) GRAIL_MUST_CHECK;

#endif
