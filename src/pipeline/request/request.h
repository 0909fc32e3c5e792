/* What was asked of a run, and what follows from that before anything runs. Only the files of this
 * room write to it, while it is opened; everyone else sees it const. */
#ifndef GRAIL_PIPELINE_REQUEST_REQUEST_H
#define GRAIL_PIPELINE_REQUEST_REQUEST_H

#include "arch/model.h"
#include "pipeline/session.h"
#include "reduce/plan.h"

#include <grail/compress.h>

/** The axis that a site cuts in a parameter. */
typedef struct cut_axis {
    int site;         /* GRAPH_NONE: not cut */
    int64_t features; /* per unit: rows, or columns (with the taps of a convolution) */
    bool exchangeable;
} cut_axis;

typedef struct parameter_cut {
    cut_axis rows, columns;
} parameter_cut;

typedef struct compression_request {
    grail_session *own_session; /* NULL when the caller's is used */
    grail_session *session;
    grail_model *model; /* of the session */
    grail_site_list *sites;
    plan plan;
    graph *narrowed;     /* the model's graph with the planned shapes */
    parameter_cut *cuts; /* [parameter_count] */
    json_t *config;      /* config.json or grail.json of the result */
    loader_verdict verdicts[LOADER_COUNT];
    const backend *backend;
    calibration *samples; /* held */
    bool
        finishes_with_network; /* no block is finished before the last: sites span blocks, REPAIR */
    grail_compress_observer observer;
    void *observer_user;
} compression_request;

#endif
