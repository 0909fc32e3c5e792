/* A result that stays in memory, in the form of a model in memory (grail/memory.h): what the output
 * directory would hold. Its tensors are made when they are asked for. */
#ifndef GRAIL_PIPELINE_OUTPUT_KEPT_RESULT_H
#define GRAIL_PIPELINE_OUTPUT_KEPT_RESULT_H

#include "format/weights/written_parts.h"
#include "pipeline/output/companions.h"
#include "pipeline/output/tensors.h"

/* A tensor of the result: part of what holds a tensor of the model. */
typedef struct kept_place {
    int64_t tensor;
    int part;
} kept_place;

typedef struct kept_result {
    const calibration_network *network; /* borrowed */
    result_tensors tensors;
    source_files sources;       /* none before kept_result_list */
    written_parts *parts;       /* [tensors of the model]; owned */
    grail_tensor *listed;       /* [count]; owned */
    kept_place *places;         /* [count]; owned */
    int64_t count;              /* 0 before kept_result_list */
    memory_documents documents; /* likewise */
} kept_result;

/** Checks the tensors of the result for NaN and infinity. *out is owned, even after a failure:
 * kept_result_free. */
grail_status kept_result_open(const calibration_network *network, bool keep_non_finite,
                              kept_result **out) GRAIL_MUST_CHECK;
void kept_result_free(kept_result *kept); /* NULL is allowed */

/** Lists the tensors, finds the files of the model that go with the result, and adds all documents
 * but the report and the model card; once. */
grail_status kept_result_list(kept_result *kept) GRAIL_MUST_CHECK;
/** Takes back what was listed and added, so that it can be done again after a failure. */
void kept_result_clear(kept_result *kept);

/** A file_taker: adds a document of the result `kept`. */
grail_status kept_result_take(void *kept, const char *name, const void *bytes,
                              size_t size) GRAIL_MUST_CHECK;

/** The result, once everything is there; borrowed from `kept`. `name` is what messages call it. */
grail_memory_model kept_result_model(kept_result *kept, const char *name);

#endif
