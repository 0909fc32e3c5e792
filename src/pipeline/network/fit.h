/* The fit of one consumer or map: from the statistics of an observation to weights. */
#ifndef GRAIL_PIPELINE_NETWORK_FIT_H
#define GRAIL_PIPELINE_NETWORK_FIT_H

#include "pipeline/network/observation.h"
#include "solve/drift.h"

/** A fit, computed in f64. fitted_map_fini frees. */
typedef struct fitted_map {
    float *weight;       /* owned, in the shape of the prior; rounded to f32 */
    double *bias_change; /* owned; NULL without a bias */
    ridge_result result;
    bool bias;
} fitted_map;

void fitted_map_fini(fitted_map *m); /* works on a zeroed one */

/** Solves with the reducer of the observed site (NULL for a map). Takes over the sums of the
 * observation. `prior` is the weight narrowed without data. */
grail_status fit_solve(const calibration_network *network, observation *o,
                       const grail_reducer *reducer, const float *prior,
                       fitted_map *out) GRAIL_MUST_CHECK;

/** Solves for a map that reads what drifted; sums are of that value. *share is that of the dense
 * network's output in the target. */
grail_status fit_solve_drift(const calibration_network *network, const observation *o,
                             const drift_sums *fit, const drift_sums *held, double *share,
                             fitted_map *out) GRAIL_MUST_CHECK;

#endif
