/* The output of a run: a directory that appears only when it is complete (base/output_directory.h),
 * with records from which an interrupted run goes on (run_records.h). */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_H

#include "base/output_directory.h"
#include "pipeline/network/network.h"
#include "pipeline/output/source_files.h"
#include "pipeline/output/tensor_map.h"

typedef struct narrow_output {
    const compression_request *request; /* borrowed */
    source_files sources;
    output_directory *directory;
    tensor_map map;
    tensor_view *shapes;       /* of the result's tensors, owned */
    checkpoint_writer *writer; /* NULL of a result that was committed before */
    int blocks_recorded;       /* finished ones, which are on disk */
    bool is_complete;          /* all tensors are on disk and recorded */
} narrow_output;

/**
 * Begins the output, or continues it: then *keep_activations becomes what it was. What the result
 * needs of the model's directory is checked, weight files are laid out, companions and documents
 * written. *out is owned: output_close.
 */
grail_status output_open(const compression_request *request, const grail_compress_options *options,
                         bool *keep_activations, narrow_output **out) GRAIL_MUST_CHECK;

/** Lets other runs into the partial again. NULL is allowed. */
void output_close(narrow_output *output);

/** Writes and records the tensors of a finished block, or with GRAPH_NONE those outside all blocks.
 */
grail_status output_write_block(narrow_output *output, const calibration_network *network,
                                int block) GRAIL_MUST_CHECK;
/** Writes and records all tensors and sites, of a network whose blocks finish with it. */
grail_status output_write_network(narrow_output *output,
                                  const calibration_network *network) GRAIL_MUST_CHECK;

/** Fills the results of a recorded block's sites; of a complete output, those of all sites. */
grail_status output_restore_block(const narrow_output *output, int block,
                                  site_result *results) GRAIL_MUST_CHECK;
grail_status output_restore_all(const narrow_output *output, site_result *results) GRAIL_MUST_CHECK;

/** Of a run that failed: what is worth continuing stays, and the message says so. The rest goes,
 * and on GRAIL_ERROR_NUMERIC, which the same inputs always meet again, all but complete weights. */
void output_after_failure(narrow_output *output, grail_status status);

/** Writes report.json, and gives the directory its name. */
grail_status output_commit(narrow_output *output, const json_t *report) GRAIL_MUST_CHECK;

#endif
