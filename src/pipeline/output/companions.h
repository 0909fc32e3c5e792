/* The files beside the weights of a result: configuration, index of shards, plan, report, hashes of
 * the calibration set, and the files that are copied from the model. */
#ifndef GRAIL_PIPELINE_OUTPUT_COMPANIONS_H
#define GRAIL_PIPELINE_OUTPUT_COMPANIONS_H

#include "base/output_directory.h"
#include "pipeline/output/model_card.h"
#include "pipeline/output/source_files.h"
#include "pipeline/request/request.h"

#define REPORT_NAME "report.json"

/* All borrowed. */
typedef struct companion_files {
    const compression_request *request;
    const source_files *sources;
    const tensor_view *shapes; /* of the result's tensors */
    output_directory *directory;
} companion_files;

/** Declares every file of the result, including the weights. */
grail_status companions_declare(const companion_files *c) GRAIL_MUST_CHECK;

/** Writes all files but the report and the model card. They are known before the first block, so a
 * full disk shows early. */
grail_status companions_write(const companion_files *c) GRAIL_MUST_CHECK;

/** Writes a declared file of indented JSON. */
grail_status document_write(output_directory *directory, const char *name,
                            const json_t *document) GRAIL_MUST_CHECK;

#endif
