/* Refits of maps by what their input has drifted (solve/drift.h): Linears of one value, whose
 * outputs then need no sums of their own. */
#ifndef GRAIL_PIPELINE_NETWORK_REFIT_DRIFT_H
#define GRAIL_PIPELINE_NETWORK_REFIT_DRIFT_H

#include "pipeline/network/network.h"

/** Whether `count` maps from node `first` on, which read one value, can be refitted so, and are
 * with fewer products: Linears with the dense network's weights, all features of its input, and
 * their own outputs as target. */
grail_status refit_drift_serves(const calibration_network *network, int first, int count,
                                bool *out) GRAIL_MUST_CHECK;

/** Carries the sample streams to the maps, and fits and sets them. */
grail_status refit_drift(calibration_network *network, int first, int count) GRAIL_MUST_CHECK;

#endif
