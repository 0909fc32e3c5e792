/* A compression run: the request, the calibration network and the output. Only the public functions
 * know all three. */
#ifndef GRAIL_PIPELINE_COMPRESSION_H
#define GRAIL_PIPELINE_COMPRESSION_H

#include "base/profile.h"
#include "pipeline/network/network.h"
#include "pipeline/output/kept_result.h"
#include "pipeline/output/output.h"
#include "pipeline/request/request.h"

/* How far the calls on a run have come. */
typedef enum run_state {
    RUN_DESCRIBED, /* of a dry run */
    RUN_OPEN,
    RUN_ENDED_EARLY, /* failed or cancelled: what the network holds is no result */
    RUN_DONE,
    RUN_COMMITTED /* the result has its name */
} run_state;

struct grail_compression {
    run_state state;
    compression_request *request; /* const once it is open */
    calibration_network *network;
    narrow_output *output; /* NULL: the result stays in memory, or rank 0 writes it */
    kept_result *kept;     /* NULL unless it stays in memory; of a dry run NULL, too */
    int blocks_recorded;   /* of the interrupted run that goes on, on all ranks; of a dry run -1
                              where there is none to go on */
    bool is_fitted;        /* all of it that precedes the healing of the network is on disk */
    bool is_written;       /* all its tensors are */
    char *command;         /* for the model card, or NULL */
    buffer sections;       /* of the model card, in addition to those that the report gives */
    profile *profile;      /* of the calls on this run; NULL: not wanted */
    json_t *report;        /* NULL until the result is sealed, or taken; owned */
};

/** Opens a run for a purpose of its own; otherwise as grail_compression_open. */
grail_status compression_open(const grail_compress_options *options, request_purpose purpose,
                              grail_compression **out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_ARGUMENT unless the run has a result; its message says `wanted`, such as "finish".
 */
grail_status run_check_result(const grail_compression *c, const char *wanted) GRAIL_MUST_CHECK;

/** Makes the report of a run that is done; *out is owned. */
grail_status run_report(const grail_compression *c, json_t **out) GRAIL_MUST_CHECK;

#endif
