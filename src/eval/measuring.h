/* What measurements of networks have in common: what they run on, what ranks that share one out
 * compare before it, who is told, and whether a text is the one that was calibrated on. */
#ifndef GRAIL_EVAL_MEASURING_H
#define GRAIL_EVAL_MEASURING_H

#include "comm/comm.h"
#include "exec/parameters.h"
#include "format/text/windows.h"

#include <grail/eval.h>

/** A network that is measured; measured_close frees, even after a failure. */
typedef struct measured_network {
    backend *backend;
    parameter_store *dense;
    parameter_store *cut;   /* over it: of what a narrow model kept, or NULL */
    parameter_store *store; /* of these, the one that is measured */
} measured_network;

/** `narrow` NULL: `model` itself; else what `narrow` kept of it. */
grail_status measured_open(const grail_model *model, const grail_model *narrow,
                           const grail_compute *compute, measured_network *n) GRAIL_MUST_CHECK;
/** What a rank opens by itself, of a measurement that is shared out. */
grail_status measured_open_alone(const grail_model *model, const grail_model *narrow,
                                 const grail_compute *compute,
                                 measured_network *n) GRAIL_MUST_CHECK;
void measured_close(measured_network *n); /* works on a zeroed one */

/** Whether all ranks measure the same with the same network: `data`, for the message, is what
 * bytes[size] say. GRAIL_ERROR_ARGUMENT on all where one differs in these, in the model, in the
 * precision of `b`, or in the number of threads. */
grail_status agreement_check(const grail_comm *comm, const grail_model *model, const backend *b,
                             const char *data, const void *bytes, size_t size) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_CANCELLED where the observer, which may be NULL, wants no more; `what` is counted:
 * "windows". */
grail_status observer_tell(grail_eval_observer observer, void *user, const grail_eval_progress *now,
                           const char *what) GRAIL_MUST_CHECK;

typedef struct text_overlap {
    int64_t recorded;    /* runs of SHINGLE_TOKENS calibration tokens */
    int64_t found;       /* of these, in the windows */
    bool is_calibration; /* the text is the one that was calibrated on */
} text_overlap;

/** By what report.json and calibration.hashes beside the model say; zeros without them. */
grail_status text_overlap_find(const grail_model *model, const token_windows *windows,
                               text_overlap *out) GRAIL_MUST_CHECK;

#endif
