/* The files beside the weights of a result: configuration, index of shards, plan, report, hashes of
 * the calibration set, and the files that are copied from the model. */
#ifndef GRAIL_PIPELINE_OUTPUT_COMPANIONS_H
#define GRAIL_PIPELINE_OUTPUT_COMPANIONS_H

#include "base/record.h"
#include "pipeline/output/model_card.h"
#include "pipeline/output/source_files.h"
#include "pipeline/request/request.h"

#define REPORT_NAME "report.json"

/** Takes a file of the result. */
typedef grail_status (*file_taker)(void *to, const char *name, const void *bytes, size_t size);

/* All borrowed. */
typedef struct companion_files {
    const compression_request *request;
    const source_files *sources;
    const tensor_view *shapes; /* of the result's tensors */
    run_record *record;        /* NULL: the result stays in memory, and its weights are no files */
} companion_files;

/** Declares every file of the result, including the weights. */
grail_status companions_declare(const companion_files *c) GRAIL_MUST_CHECK;

/** Gives all files but the report and the model card. They are known before the first block, so a
 * full disk shows early. */
grail_status companions_write(const companion_files *c, file_taker take, void *to) GRAIL_MUST_CHECK;

/** Gives a file of indented JSON. */
grail_status document_write(const char *name, const json_t *document, file_taker take,
                            void *to) GRAIL_MUST_CHECK;

/** Gives the model card, with the arguments of model_card_append. */
grail_status card_write(const compression_request *request, const json_t *report,
                        const char *command, const buffer *sections, file_taker take,
                        void *to) GRAIL_MUST_CHECK;

#endif
