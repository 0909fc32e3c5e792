/* The fingerprint of a run: everything that decides its bytes. A run is continued only if the
 * fingerprint is the same; the message names what differs. */
#ifndef GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H
#define GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H

#include "pipeline/output/source_files.h"
#include "pipeline/request/request.h"

/** Contains files, the options that decide (grail/options.h) as the run takes them, configuration,
 * plan, calibration, backend and threads. */
grail_status fingerprint_of_run(const compression_request *request,
                                const grail_compress_options *options, const source_files *sources,
                                json_t *object) GRAIL_MUST_CHECK;

/** A difference is GRAIL_ERROR_ARGUMENT, about the option where it is one. The message names the
 * first value that differs, and `place`, the unfinished output. Where `then` holds no options,
 * `now` loses them. */
grail_status fingerprint_compare(const char *place, json_t *then, json_t *now) GRAIL_MUST_CHECK;

/** The same for what rank 0 and this rank have. */
grail_status fingerprint_compare_ranks(json_t *first, json_t *own) GRAIL_MUST_CHECK;

#endif
