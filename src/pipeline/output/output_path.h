/* Where an output may go. */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_PATH_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_PATH_H

#include "base/status.h"

/** A copy without slashes at the end, for "OUT/" and "OUT" are the same directory; "" is
 * GRAIL_ERROR_ARGUMENT. *out is owned. */
grail_status output_path_copy(const char *path, char **out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_EXISTS, GRAIL_ERROR_IO or GRAIL_ERROR_ARGUMENT where `path` exists, its directory
 * cannot be written to, or it lies inside the model; model NULL: it is not known by a path. */
grail_status output_path_check(const char *path, const char *model) GRAIL_MUST_CHECK;

#endif
