/* What a run cannot do with regions that ONNX Runtime computes. */
#ifndef GRAIL_PIPELINE_REQUEST_REGIONS_H
#define GRAIL_PIPELINE_REQUEST_REGIONS_H

#include "heal/heal_options.h"
#include "pipeline/request/cuts.h"

/** Refuses gradients through regions, and, where a run sees samples, starts those that it comes to,
 * so that ONNX Runtime is missed before it begins; one that judges its result comes to all. Both
 * are GRAIL_ERROR_UNSUPPORTED. */
grail_status regions_check(const cutting *cut, const heal_options *heal, bool judges,
                           bool sees_samples) GRAIL_MUST_CHECK;

#endif
