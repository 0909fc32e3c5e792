/* Dropping experts of a layer (request/experts.h): which ones stay, and their new places. */
#ifndef GRAIL_PIPELINE_NETWORK_EXPERTS_H
#define GRAIL_PIPELINE_NETWORK_EXPERTS_H

#include "pipeline/network/decide.h"

/** Decides a site of experts, in the pass before its router is met. */
grail_status experts_decide(const cutting *cut, int site, sample_passes *passes,
                            site_result *result) GRAIL_MUST_CHECK;

/** Puts the experts of a decided site that stay before the others: the dense store reads their
 * parameters in their new places, and orders[values] of the router's shares tells them. What the
 * current network sees through the dense store moves with it. */
grail_status experts_take_places(const graph *g, const site *s, const grail_reducer *reducer,
                                 parameter_store *dense, int64_t **orders) GRAIL_MUST_CHECK;

#endif
