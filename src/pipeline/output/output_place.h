/* Checks where an output may be written. */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_PLACE_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_PLACE_H

#include "arch/model.h"

#include <grail/compress.h>

#include <stdbool.h>

/** Checks that an output, a directory or a GGUF file, can be created at the place that the options
 * name. Called before anything is read. */
grail_status output_check_place(const grail_compress_options *options,
                                bool is_file) GRAIL_MUST_CHECK;

/** The same of a directory, of what an earlier run left there, and of the model's files that are
 * copied, for work that comes before the run is opened. */
grail_status output_check_free(const grail_compress_options *options,
                               const grail_model *model) GRAIL_MUST_CHECK;

#endif
