/* The fingerprint of a run: everything that decides its bytes, the first entry of its record. A run
 * is continued only if the fingerprint is the same; the message names what differs. */
#ifndef GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H
#define GRAIL_PIPELINE_OUTPUT_FINGERPRINT_H

#include "base/record.h"
#include "format/tensor_writer.h"
#include "pipeline/output/source_files.h"
#include "pipeline/request/request.h"

/** Contains files (NULL: what they hold), the options that decide (grail/options.h) as the run
 * takes them, configuration, plan, calibration, backend and threads. */
grail_status fingerprint_of_run(const compression_request *request,
                                const grail_compress_options *options, const source_files *sources,
                                json_t *object) GRAIL_MUST_CHECK;

/** Lays out the files that a run makes, or those of an interrupted one, whose entries say what they
 * hold. */
typedef grail_status (*run_layout)(void *user, layout_start start);

/** Begins a record, which also says whether the run keeps activations, and has the result laid out;
 * or goes on with one that is recognised, unless it is committed. What cannot be begun is
 * abandoned. */
grail_status fingerprint_begin(run_record *r, json_t *fingerprint, bool *keep_activations,
                               run_layout lay_out, void *user) GRAIL_MUST_CHECK;
/** Whether a record that is begun is of this run, of which *keep_activations becomes what it has
 * been. A difference is GRAIL_ERROR_ARGUMENT, about the option where it is one; the message names
 * the first value that differs. Where the record holds no options, `fingerprint` loses them. */
grail_status fingerprint_recognise(const run_record *r, json_t *fingerprint,
                                   bool *keep_activations) GRAIL_MUST_CHECK;

/** Compares what rank 0 and this rank have. */
grail_status fingerprint_compare_ranks(const json_t *first, const json_t *own) GRAIL_MUST_CHECK;

#endif
