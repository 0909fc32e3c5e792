/* The request: the options of a run, and everything that follows from them before it runs. Only
 * request_open writes it; from then on it is const. */
#ifndef GRAIL_PIPELINE_REQUEST_REQUEST_H
#define GRAIL_PIPELINE_REQUEST_REQUEST_H

#include "comm/comm.h"
#include "heal/heal_options.h"
#include "pipeline/request/cuts.h"
#include "pipeline/request/narrowed.h"
#include "pipeline/request/rounded_types.h"
#include "pipeline/request/session.h"

/** What a request is for, besides a run of the options. */
typedef struct request_purpose {
    const int64_t *kept;    /* widths of the sites, instead of those of the options; or NULL */
    bool reads_samples;     /* even where nothing is cut */
    bool is_file;           /* the result is the GGUF file alone, in the order of the graph */
    const char *table_type; /* of that file, as of grail_gguf_options */
    judging judges;         /* a part of the samples is kept apart to judge the result, which is
                               neither written nor kept */
} request_purpose;

typedef struct compression_request {
    grail_session *own_session; /* NULL when the caller's is used */
    grail_session *session;     /* an open loop takes its statistics and keeps them here */
    const grail_model *model;   /* of the session */
    const graph *graph;         /* of the model: the dense network, unless there is a teacher */
    grail_model *teacher; /* the dense network of a model that was narrowed earlier, owned; or NULL
                           */
    grail_site_list *sites;
    plan plan;
    parameter_cut *cuts; /* [parameter_count] */
    cutting cut;         /* the graph, the sites, the plan and the cuts, for what reads them */
    narrowed_model narrowed;
    rounded_types rounded;          /* of the result */
    const grail_comm *comm;         /* borrowed; NULL: one rank */
    backend *backend;               /* of the session */
    calibration *samples;           /* held; without samples if nothing needs data */
    calibration *healed;            /* held: what the network is healed on instead; or NULL */
    double deadline;                /* of all, by clock_seconds; or infinity */
    network_statistics *statistics; /* of the dense network, instead of a pass; owned, or NULL */
    judging judges;                 /* see request_purpose */
    bool
        drifts_by_rounding; /* where nothing is cut, what rounding changes is refitted like a cut */
    heal_options heal;
    bool finishes_with_network; /* all blocks are finished together, after the last one */
    bool is_file;               /* see request_purpose */
    bool finishes_with_head;    /* what is outside the blocks is finished after them */
    grail_compress_observer observer;
    grail_heal_observer heal_observer;
    grail_step_observer step_observer;
    void *observer_user;
} compression_request;

/** Opens the model unless a session is given, makes the plan, checks everything that can be
 * checked, and reads the samples. A dry run may have none, and decodes no images. *out is owned,
 * even after a failure: request_close. */
grail_status request_open(const grail_compress_options *options, request_purpose purpose,
                          compression_request **out) GRAIL_MUST_CHECK;
void request_close(compression_request *request); /* NULL is allowed */

/** Whether the samples of a batch judge the result: in a request that judges those that
 * calibration_judges says. No statistics are taken of them: passes (network/pass.h) leave them out,
 * and what trains draws none of them. */
bool request_judges_batch(const compression_request *request, int64_t batch);

/** [parameter_count] dtypes of a result that is made a GGUF file with types of its own, for
 * parameter stores; NULL elsewhere. */
const grail_dtype *request_written_dtypes(const compression_request *request);
/** Whether a GGUF file is made from another one: rows of tensors go through the order of the graph,
 * in which all tensors of a directory that becomes one lie. */
bool request_orders_rows(const compression_request *request);
/** Whether all tensors of the result have the values of the model's. */
bool request_keeps_values(const compression_request *request);
/** The dtype in which the result holds a parameter. */
grail_dtype request_written_dtype(const compression_request *request, int parameter);

const site *site_at(const compression_request *request, int index);

#endif
