/* Where an output may go. */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_PLACE_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_PLACE_H

#include <grail/compress.h>

/** Whether the options name a place where an output can be; before anything is read. */
grail_status output_check_place(const grail_compress_options *options) GRAIL_MUST_CHECK;

#endif
