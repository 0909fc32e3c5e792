/* The narrowed network as known before the run: its shapes, its configuration, and which loaders
 * open it. */
#ifndef GRAIL_PIPELINE_REQUEST_NARROWED_H
#define GRAIL_PIPELINE_REQUEST_NARROWED_H

#include "arch/gguf_target.h"
#include "arch/model.h"
#include "pipeline/request/cuts.h"

typedef struct narrowed_model {
    graph *graph; /* the model's graph with the planned shapes, without dropped sublayers; owned */
    json_t *config;             /* config.json or grail.json of the result; owned */
    const char *loader_file;    /* what a loader needs besides; NULL: nothing */
    buffer loader_text;         /* its content */
    onnx_integer_list integers; /* of a result that is an ONNX file */
    gguf_pairs *pairs;          /* the keys of a result that is a GGUF file; owned */
    gguf_target *target;        /* of one that is made from a directory; owned, NULL elsewhere */
    int *block_number; /* [block_count]: that of each block in the result; GRAPH_NONE: left out */
    int blocks_left;
    loader_verdict verdicts[LOADER_COUNT];
} narrowed_model;

/** cuts[parameter_count] are those of the plan. With `file` the result is a GGUF file of
 * these types; NULL: it has the form of the model. The caller calls narrowed_fini, even
 * after a failure. */
grail_status narrowed_describe(const grail_model *model, const site_list *sites, const plan *p,
                               const parameter_cut *cuts, const grail_gguf_options *file,
                               narrowed_model *out) GRAIL_MUST_CHECK;
/** In which the result's weights are written; NULL: in that of the model. */
const weights_format *narrowed_format(const narrowed_model *narrowed);
void narrowed_fini(narrowed_model *narrowed); /* works on a zeroed one */

#endif
