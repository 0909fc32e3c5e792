/* What the runs on one checkpoint share: the opened model, the samples, the dense network's
 * statistics for an open loop, and what plans have measured. Only one thread may use a session at a
 * time. */
#ifndef GRAIL_PIPELINE_REQUEST_SESSION_H
#define GRAIL_PIPELINE_REQUEST_SESSION_H

#include "arch/model.h"
#include "base/kept_numbers.h"
#include "exec/compute.h"
#include "pipeline/request/calibration.h"
#include "stats/statistics.h"

#include <grail/compress.h>

/** Statistics of the dense network at the input of one node. */
typedef struct dense_statistics {
    grail_statistics *fit, *held; /* owned */
    int64_t taps;
    bool of_patches; /* rows are what a convolution reads: with a stride not every position */
    matrix squares;  /* [1, width] sums of squares of the input's features; owned */
} dense_statistics;

/** Keeps numbers that were measured beyond the session. */
typedef grail_status number_keeper(void *user, const char *key, const double *numbers,
                                   size_t count);

struct grail_session {
    grail_model *model;
    calibration *samples;  /* of the last run that needed samples; held, NULL = none yet */
    json_t *samples_key;   /* calibration_key of `samples`, owned */
    drawn_windows drawn;   /* the most that the network has drawn for samples */
    calibration *counted;  /* samples of the statistics; held, NULL = none yet */
    judging counted_apart; /* the statistics are without those that judge */
    const backend *counted_by;
    backend **backends; /* [backend_count] open instances; owned */
    char **scratch;     /* [backend_count] their directories for scratch files, or NULL; owned */
    int backend_count;
    char *notice;               /* on the samples of the last run, or NULL; owned */
    dense_statistics *of_nodes; /* [node_count], filled by open_loop.c when a run needs them */
    matrix *metrics;       /* [node_count] of the outputs of the dense network's nodes, filled by
                              fisher.c;   owned, no matrix where none was measured */
    kept_numbers kept;     /* losses and divergences of plans (planning/shared.h) */
    number_keeper *keeper; /* told of each that is added, while a plan is made; NULL: nobody */
    void *keeper_user;
};

/** Gets the samples that the options name; reads them unless the session has them. *out is held for
 * the caller: calibration_release. */
grail_status session_calibration(grail_session *s, const grail_compress_options *options,
                                 const network_statistics *statistics,
                                 calibration **out) GRAIL_MUST_CHECK;
/** Keeps what is to be said of the samples of a run. */
grail_status session_note(grail_session *s, const calibration *samples) GRAIL_MUST_CHECK;
/** The session's instance of a backend in a precision, opened when it is first asked for, with this
 * directory for scratch files or NULL; borrowed. */
grail_status session_backend(grail_session *s, const grail_compute *compute, const char *scratch,
                             backend **out) GRAIL_MUST_CHECK;
/** Drops the statistics unless they were taken from these samples, with or without those that
 * judge, by this backend. */
void session_count(grail_session *s, calibration *samples, judging apart, const backend *by);

#endif
