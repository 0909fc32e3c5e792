/* The dense network beside a training of the whole network: its outputs for the samples of a step.
 */
#ifndef GRAIL_PIPELINE_NETWORK_HEAL_DENSE_H
#define GRAIL_PIPELINE_NETWORK_HEAL_DENSE_H

#include "pipeline/network/heal_input.h"
#include "pipeline/network/network.h"

/** What was computed of the dense network. Text does not change, so each sample is run up to the
 * head when it is first asked for, one at a time so that its values do not depend on what is asked
 * for with it; these are kept where those of all samples fit into memory. The one of several
 * ranks that asks first keeps it, and gives it to others that ask later. */
typedef struct heal_dense {
    calibration_network *network; /* borrowed */
    int begin;                    /* node of the head; 0: samples change */
    sample_stream kept;           /* before the head, a batch for each sample */
    bool keeps;                   /* on all ranks alike */
    int *holders;    /* [samples] rank that keeps each, NOBODY where none does; owned */
    int64_t *widths; /* columns of the values that are kept; owned */
} heal_dense;

/** heal_dense_fini frees, and works on a zeroed one. */
grail_status heal_dense_init(calibration_network *network, heal_dense *d) GRAIL_MUST_CHECK;
void heal_dense_fini(heal_dense *d);

/** Computes, on rank `runner`, what no rank keeps of a part. Called by all ranks. */
grail_status heal_dense_prepare(heal_dense *d, const sample_part *part,
                                int runner) GRAIL_MUST_CHECK;
/** Puts what is kept of a part into the runner's execution of the dense network. Called by all. */
grail_status heal_dense_place(heal_dense *d, const sample_part *part, int runner) GRAIL_MUST_CHECK;
/** Leaves the outputs for the placed part in that execution; `input` is the part's. */
grail_status heal_dense_run(heal_dense *d, const sample_part *part,
                            const heal_input *input) GRAIL_MUST_CHECK;

#endif
