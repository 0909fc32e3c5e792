/* Trials: the error that the fit of a site would have with a reducer, for a selector that compares
 * several. */
#ifndef GRAIL_PIPELINE_NETWORK_TRIAL_H
#define GRAIL_PIPELINE_NETWORK_TRIAL_H

#include "pipeline/network/observation.h"

typedef struct site_trial {
    const calibration_network *network;
    int site;
    const observation *observed; /* of the consumer that decides; NULL: of all of them, in the dense
                                    network */
} site_trial;

/** Runs a reducer_trial; `context` is a site_trial. The error is that of the plain cut where
 * nothing is fitted. */
grail_status site_trial_run(void *context, const grail_reducer *r, double *error) GRAIL_MUST_CHECK;

#endif
