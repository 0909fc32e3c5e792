/* The values of single options of a run. */
#ifndef GRAIL_PIPELINE_REQUEST_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_OPTIONS_H

#include "reduce/plan.h"

#include <grail/compress.h>

/** Whether every field has a value of its range; names are looked up later, where they are used. */
grail_status compress_options_check(const grail_compress_options *o) GRAIL_MUST_CHECK;

/** The choice with which nothing is fitted, as an option. */
#define NO_FIT "compensate=none"

/** The words of `quantize`, up to NULL: none, then types of directories, then of GGUF files. */
extern const char *const rounded_type_names[];

/** What the options say of the entire plan. */
grail_status plan_from_fields(const grail_compress_options *o, plan *p) GRAIL_MUST_CHECK;
/** The reverse, with the compensation: a default and what it stands for become the same. */
grail_status plan_to_fields(const plan *p, grail_compress_options *o) GRAIL_MUST_CHECK;

/** object[name of the field] = the option, of those that decide the bytes of a result. */
grail_status compress_options_record(const grail_compress_options *o,
                                     json_t *object) GRAIL_MUST_CHECK;

/** The compensation that `compensate` names, changed by the fields with the keys of
 * compensation_fields. `rule` is the selector
 * whose own may be asked for. */
grail_status compensation_from_options(const grail_compress_options *o, const selector *rule,
                                       compensation *out) GRAIL_MUST_CHECK;

#endif
