/* The fingerprint of a run: everything that decides its bytes. A run is continued only where it is
 * the same, and what differs is named. */
#ifndef GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H
#define GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H

#include "base/json.h"
#include "pipeline/request/request.h"

/** Files, configuration, plan, calibration, backend, threads. *out is owned. */
grail_status fingerprint_of_run(const compression_request *request, json_t **out) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT names the first value in which this run differs from `then`, which was
 * recorded in the directory `partial`. */
grail_status fingerprint_compare(const compression_request *request, const char *partial,
                                 json_t *then) GRAIL_MUST_CHECK;

#endif
