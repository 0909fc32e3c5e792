/* A compression run: what was asked, the network that is narrowed, and the output. */
#ifndef GRAIL_PIPELINE_COMPRESSION_H
#define GRAIL_PIPELINE_COMPRESSION_H

#include "pipeline/network/network.h"
#include "pipeline/output/output.h"
#include "pipeline/request/request.h"

struct grail_compression {
    compression_request *request;
    calibration_network *network;
    narrow_output *output; /* NULL: the result stays in memory */
};

/* -- output.c ------------------------------------------------------------------------------------
 */

/** Opens the writer in OUTPUT.partial. */
grail_status open_output(grail_compression *c, bool resume) GRAIL_MUST_CHECK;
/** Writes the tensors of one block, or with GRAPH_NONE those outside all blocks. */
grail_status write_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** config.json, tokenizer and generation files, plan.json. */
grail_status write_companions(grail_compression *c) GRAIL_MUST_CHECK;

/* -- fingerprint.c -------------------------------------------------------------------------------
 */

/** Everything that decides the bytes of this run: files, configuration, plan, calibration, backend,
 * threads. *out is owned. */
grail_status fingerprint_of_run(const grail_compression *c, json_t **out) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT names the first value in which this run differs from `then`. */
grail_status fingerprint_compare(const grail_compression *c, json_t *then) GRAIL_MUST_CHECK;

/* -- state.c -------------------------------------------------------------------------------------
 */

/** Creates or continues OUTPUT.partial; fills the output with the records of finished blocks. */
grail_status state_begin(grail_compression *c,
                         const grail_compress_options *options) GRAIL_MUST_CHECK;
/** Lets other runs into OUTPUT.partial again. */
void state_end(grail_compression *c);
/** Appends the record of a finished block, on disk when it returns. */
grail_status state_record_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Fills network->results of a block from its record. */
grail_status state_restore_block(grail_compression *c, int block) GRAIL_MUST_CHECK;
/** Of a run that failed: what is worth continuing stays, and the message says so. OUTPUT.partial
 * goes when no block is finished, and on GRAIL_ERROR_NUMERIC, which the same inputs always meet
 * again.
 */
void state_after_failure(const grail_compression *c, grail_status status);

/** Renames the finished directory into place and removes the state from it. */
grail_status compression_commit(grail_compression *c) GRAIL_MUST_CHECK;

#endif
