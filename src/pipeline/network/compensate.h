/* From the statistics of an observation to weights. */
#ifndef GRAIL_PIPELINE_NETWORK_COMPENSATE_H
#define GRAIL_PIPELINE_NETWORK_COMPENSATE_H

#include "pipeline/network/decide.h"
#include "pipeline/network/refits.h"
#include "solve/drift.h"

/** Takes the finished statistics: decides the reducer if it is not decided yet, solves, and sets
 * the consumer. The metric is that of decide_at_consumer. The statistics cannot be used afterwards.
 */
grail_status compensate_consumer(const cutting *cut, observation *o, sample_passes *passes,
                                 const regional_gradients *gradients, matrix metric,
                                 site_result *results) GRAIL_MUST_CHECK;
/** Takes the finished statistics of a map whose input is not cut: solves, and sets the map unless
 * its own weight does best on the held-out part. The statistics cannot be used afterwards. */
grail_status compensate_map(const cutting *cut, observation *o, sample_passes *passes,
                            const site_result *results, refit_list *refits) GRAIL_MUST_CHECK;
/** The same of a map that reads what has drifted, with the sums of that value. */
grail_status compensate_drifted_map(const cutting *cut, int node_index, const drift_sums *fit,
                                    const drift_sums *held, sample_passes *passes,
                                    const site_result *results,
                                    refit_list *refits) GRAIL_MUST_CHECK;
/** Sets the consumer narrowed without a fit, so it needs no statistics. */
grail_status narrow_consumer_plainly(const cutting *cut, const grail_reducer *reducer, int site,
                                     int consumer, parameter_store *current) GRAIL_MUST_CHECK;

#endif
