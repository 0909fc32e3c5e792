/* Refits of maps that were not cut, to what the dense network has there: from sums of their inputs
 * and targets, or from what the value that they read has drifted (solve/drift.h), where their
 * outputs need no sums of their own. */
#ifndef GRAIL_PIPELINE_NETWORK_REFIT_MAPS_H
#define GRAIL_PIPELINE_NETWORK_REFIT_MAPS_H

#include "pipeline/network/pass.h"
#include "pipeline/network/refits.h"
#include "pipeline/network/site_result.h"

/** Observes nodes first .. first + count - 1 in one pass and fits one after another. Several are
 * Linears that read the same value: their targets lie side by side over one Gram matrix. The
 * fits are added to `refits`. */
grail_status refit_maps(const cutting *cut, int first, int count, sample_passes *passes,
                        const site_result *results, refit_list *refits) GRAIL_MUST_CHECK;

#endif
