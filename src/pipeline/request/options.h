/* What the options of a run say. */
#ifndef GRAIL_PIPELINE_REQUEST_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_OPTIONS_H

#include "reduce/plan.h"

#include <grail/compress.h>

/** The repair that `compensate` names, with the single choices that the options make themselves. */
grail_status compensation_from_options(const grail_compress_options *o,
                                       compensation *out) GRAIL_MUST_CHECK;

#endif
