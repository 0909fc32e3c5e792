/* The values of single options of a run. */
#ifndef GRAIL_PIPELINE_REQUEST_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_OPTIONS_H

#include "reduce/plan.h"

#include <grail/compress.h>

/** Whether every field has a value of its range; names are looked up later, where they are used. */
grail_status compress_options_check(const grail_compress_options *o) GRAIL_MUST_CHECK;

/** The compensation that `compensate` names, changed by the options that are given separately
 * (target, bias, conv_fit, ridge, ridge_scale, token_weights, refit, alpha). `rule` is the selector
 * whose own may be asked for. */
grail_status compensation_from_options(const grail_compress_options *o, const selector *rule,
                                       compensation *out) GRAIL_MUST_CHECK;

#endif
