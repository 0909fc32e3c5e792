/* The output of a run: a directory that appears only when it is complete (base/record.h).
 * Its records let an interrupted run continue (run_records.h). */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_H

#include "base/record.h"
#include "pipeline/network/recorded.h"
#include "pipeline/output/source_files.h"
#include "pipeline/output/tensors.h"

typedef struct narrow_output {
    const compression_request *request; /* borrowed */
    source_files sources;
    run_record *record;
    result_tensors tensors;
    checkpoint_writer *writer; /* NULL if the result was already committed */
    int blocks_recorded;       /* number of finished blocks whose tensors are on disk */
    bool is_fitted;            /* all that precedes the healing of the network is on disk */
    bool is_complete;          /* all tensors are on disk and recorded */
} narrow_output;

/**
 * Begins the output, or continues it; then *keep_activations becomes the value of the interrupted
 * run. Checks the files of the model that the result needs, and its tensors for NaN and infinity,
 * lays out the weight files, and writes companions and documents. *out is owned,
 * even after a failure: output_close.
 */
grail_status output_open(const compression_request *request, const grail_compress_options *options,
                         bool *keep_activations, narrow_output **out) GRAIL_MUST_CHECK;

/** What output_open would find, for a dry run: *blocks is how many blocks the interrupted run has
 * finished that `options` continue, -1 without one. What keeps a run from being begun or continued
 * there is an error, as far as it can be seen without a lock. */
grail_status output_look(const compression_request *request, const grail_compress_options *options,
                         int *blocks) GRAIL_MUST_CHECK;

/** Releases the lock on the partial directory. NULL is allowed. */
void output_close(narrow_output *output);

/** Writes and records the tensors of a finished block, or those outside all blocks for GRAPH_NONE.
 */
grail_status output_write_block(narrow_output *output, const calibration_network *network,
                                int block) GRAIL_MUST_CHECK;
/** Writes and records all tensors and sites of a network whose blocks are all finished at the end.
 */
grail_status output_write_network(narrow_output *output,
                                  const calibration_network *network) GRAIL_MUST_CHECK;

/** Writes and records all tensors and sites of a network that is to be healed; nothing where its
 * blocks are recorded. */
grail_status output_write_fitted(narrow_output *output,
                                 const calibration_network *network) GRAIL_MUST_CHECK;
/** Called when a run failed. Keeps the partial directory if it is worth continuing, and adds to the
 * message how. Otherwise removes it; after GRAIL_ERROR_NUMERIC, which the same inputs always reach
 * again, it stays only if all weights are complete. */
void output_after_failure(narrow_output *output, grail_status status);

/** Makes the weights readable and writes report.json, so that the result opens at output_place. */
grail_status output_seal(narrow_output *output, const json_t *report) GRAIL_MUST_CHECK;
/** Where the files of the result are now: at its name only once it is committed. */
const char *output_place(const narrow_output *output);

/** Writes the model card of a sealed result, with the arguments of model_card_append, and gives the
 * result its name. */
grail_status output_commit(narrow_output *output, const json_t *report, const char *command,
                           const buffer *sections) GRAIL_MUST_CHECK;

#endif
