/* From the statistics of an observation to weights. */
#ifndef GRAIL_PIPELINE_NETWORK_COMPENSATE_H
#define GRAIL_PIPELINE_NETWORK_COMPENSATE_H

#include "pipeline/network/observation.h"
#include "solve/drift.h"

/** A fit, computed in f64. fitted_map_fini frees. */
typedef struct fitted_map {
    float *weight;       /* owned, in the shape of the prior; rounded to f32 */
    double *bias_change; /* owned; NULL without a bias */
    ridge_result result;
    bool bias;
} fitted_map;

/** Takes the finished statistics: decides the reducer if it is not decided yet, solves, and sets
 * the consumer. The statistics cannot be used afterwards. */
grail_status compensate_consumer(calibration_network *network, observation *o) GRAIL_MUST_CHECK;
/** Takes the finished statistics of a map whose input is not cut: solves, and sets the map unless
 * its own weight does best on the held-out part. The statistics cannot be used afterwards. */
grail_status compensate_map(calibration_network *network, observation *o) GRAIL_MUST_CHECK;
/** The same of a map that reads what has drifted, with the sums of that value. */
grail_status compensate_drifted_map(calibration_network *network, int node_index,
                                    const drift_sums *fit, const drift_sums *held) GRAIL_MUST_CHECK;
/** Sets the consumer narrowed without a fit, so it needs no statistics. */
grail_status narrow_consumer_plainly(calibration_network *network, int site,
                                     int consumer) GRAIL_MUST_CHECK;

#endif
