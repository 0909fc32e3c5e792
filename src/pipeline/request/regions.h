/* What a run cannot do with regions that ONNX Runtime computes. */
#ifndef GRAIL_PIPELINE_REQUEST_REGIONS_H
#define GRAIL_PIPELINE_REQUEST_REGIONS_H

#include "heal/heal_options.h"
#include "pipeline/request/cuts.h"

/** hidden[values] <- whether a value depends on parameters of these nodes through a region, so that
 * it gives them no whole gradient. *first: 1 + the number of the first such region, as
 * grail_model_region_at counts them; 0: there is none. */
grail_status regions_hide(const graph *g, int begin, int end, bool **hidden,
                          int *first) GRAIL_MUST_CHECK; /* *hidden is owned, even after a failure */

/** Refuses gradients through regions where nothing could be trained without, and, where a run sees
 * samples, starts those that it comes to, so that ONNX Runtime is missed before it begins; one that
 * judges its result comes to all. Both are GRAIL_ERROR_UNSUPPORTED. */
grail_status regions_check(const cutting *cut, const heal_options *heal, bool judges,
                           bool sees_samples) GRAIL_MUST_CHECK;

#endif
