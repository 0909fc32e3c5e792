/* Refits of maps that were not cut, to what the dense network has there: from sums of their inputs
 * and targets, or from what the value that they read has drifted (solve/drift.h), where their
 * outputs need no sums of their own. */
#ifndef GRAIL_PIPELINE_NETWORK_REFIT_MAPS_H
#define GRAIL_PIPELINE_NETWORK_REFIT_MAPS_H

#include "pipeline/network/network.h"

/** Observes nodes first .. first + count - 1 in one pass and fits one after another. Several are
 * Linears that read the same value: their targets lie side by side over one Gram matrix. */
grail_status refit_maps(calibration_network *network, int first, int count) GRAIL_MUST_CHECK;

#endif
