/* The output of a run: a directory that appears only when it is complete. Until then it grows as
 * OUTPUT.partial, with a record of each finished block, from which an interrupted run goes on. */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_H

#include "pipeline/network/network.h"
#include "pipeline/output/state.h"
#include "pipeline/output/tensor_map.h"

typedef struct narrow_output {
    const compression_request *request; /* borrowed */
    char *path, *partial;
    run_state state;
    tensor_map map;
    checkpoint_writer *writer;
    json_t *records;     /* of the blocks that the run had finished when it was interrupted */
    int blocks_recorded; /* finished ones, which are on disk */
} narrow_output;

/** Whether the options name a place where an output can be; before anything is read. */
grail_status output_check_place(const grail_compress_options *options) GRAIL_MUST_CHECK;

/** Creates OUTPUT.partial, or continues it: then *keep_activations becomes what it was when the run
 * was begun, for it depends on free memory and must not change. *out is owned: output_close. */
grail_status output_open(const compression_request *request, const grail_compress_options *options,
                         bool *keep_activations, narrow_output **out) GRAIL_MUST_CHECK;

/** Lets other runs into OUTPUT.partial again; what is there stays. NULL is allowed. */
void output_close(narrow_output *output);

/** Opens the narrow tensors of the recorded blocks. *out is owned: checkpoint_close. */
grail_status output_open_recorded(const narrow_output *output, checkpoint **out) GRAIL_MUST_CHECK;
/** Fills the results of a recorded block's sites; results[sites]. */
grail_status output_restore_block(const narrow_output *output, int block,
                                  site_result *results) GRAIL_MUST_CHECK;

/** Writes the tensors of a finished block and records it, or with GRAPH_NONE only writes those
 * outside all blocks. Blocks come in their order. */
grail_status output_write_block(narrow_output *output, const calibration_network *network,
                                int block) GRAIL_MUST_CHECK;
/** Writes all tensors, of a network whose blocks finish with it. */
grail_status output_write_network(narrow_output *output,
                                  const calibration_network *network) GRAIL_MUST_CHECK;
/** Writes config.json, tokenizer and generation files, plan.json. */
grail_status output_write_companions(const narrow_output *output) GRAIL_MUST_CHECK;

/** Of a run that failed: what is worth continuing stays, and the message says so. OUTPUT.partial
 * goes when no block is finished, and on GRAIL_ERROR_NUMERIC, which the same inputs always meet
 * again. */
void output_after_failure(const narrow_output *output, grail_status status);

/** Writes report.json, and renames the finished directory into place without its state. */
grail_status output_commit(const narrow_output *output, const json_t *report) GRAIL_MUST_CHECK;

#endif
