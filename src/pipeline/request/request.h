/* What was asked of a run, and what follows from that before anything runs. request_open alone
 * writes it; from then on it is const. */
#ifndef GRAIL_PIPELINE_REQUEST_REQUEST_H
#define GRAIL_PIPELINE_REQUEST_REQUEST_H

#include "pipeline/request/cuts.h"
#include "pipeline/request/narrowed.h"
#include "pipeline/request/session.h"

typedef struct compression_request {
    grail_session *own_session; /* NULL when the caller's is used */
    grail_session *session;     /* its statistics are taken and read by an open loop */
    const grail_model *model;   /* of the session */
    const graph *graph;         /* of the model: the dense network */
    grail_site_list *sites;
    plan plan;
    parameter_cut *cuts; /* [parameter_count] */
    narrowed_model narrowed;
    const backend *backend;
    calibration *samples;       /* held; none where nothing needs data */
    bool finishes_with_network; /* no block is finished, or written, before the last one is */
    grail_compress_observer observer;
    void *observer_user;
} compression_request;

/** Opens the model where no session is given, makes the plan, checks all that can be checked and
 * reads the samples (not of a dry run). *out is owned: request_close. */
grail_status request_open(const grail_compress_options *options,
                          compression_request **out) GRAIL_MUST_CHECK;
void request_close(compression_request *request); /* NULL is allowed */

const site *site_at(const compression_request *request, int index);

#endif
