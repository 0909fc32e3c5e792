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

/** elements[value_count] of each value of one sample. */
grail_status value_elements(const graph *g, extent positions, int64_t *elements) GRAIL_MUST_CHECK;

/** Whether all values of a network fit for so many samples, as a way back through it needs, with
 * those of a loss, and so many other elements. */
grail_status tape_fits(const graph *g, const backend *b, extent positions, int64_t samples,
                       int64_t others, int64_t memory, bool *out) GRAIL_MUST_CHECK;

#endif
