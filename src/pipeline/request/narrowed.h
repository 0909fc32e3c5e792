/* The narrowed network as known before the run: its shapes, its configuration, and which loaders
 * open it. */
#ifndef GRAIL_PIPELINE_REQUEST_NARROWED_H
#define GRAIL_PIPELINE_REQUEST_NARROWED_H

#include "arch/model.h"
#include "pipeline/request/cuts.h"

typedef struct narrowed_model {
    graph *graph; /* the model's graph with the planned shapes, without dropped sublayers; owned */
    json_t *config;          /* config.json or grail.json of the result; owned */
    const char *loader_file; /* what a loader needs besides; NULL: nothing */
    buffer loader_text;      /* its content */
    gguf_pairs *pairs;       /* the keys of the result, where the model is a GGUF file; owned */
    int *block_number; /* [block_count]: that of each block in the result; GRAPH_NONE: left out */
    int blocks_left;
    loader_verdict verdicts[LOADER_COUNT];
} narrowed_model;

/** cuts[parameter_count] are those of the plan. The caller calls narrowed_fini, even after a
 * failure. */
grail_status narrowed_describe(const grail_model *model, const site_list *sites, const plan *p,
                               const parameter_cut *cuts, narrowed_model *out) GRAIL_MUST_CHECK;
void narrowed_fini(narrowed_model *narrowed); /* works on a zeroed one */

#endif
