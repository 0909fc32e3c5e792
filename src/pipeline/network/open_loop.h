/* The open loop: one pass of the dense network takes the statistics of all sites, and the session
 * keeps them for other ratios. Source: the paper's vision code (methods.md 4.8). */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H
#define GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H

#include "pipeline/network/observation.h"

/** Statistics at every consumer of a cut site, and the sums of squares that selectors ask for, into
 * the session, as far as it does not have them. */
grail_status open_loop_collect(calibration_network *network) GRAIL_MUST_CHECK;
/** Into the observation: a copy of what was collected there, which other ratios need again. */
grail_status open_loop_take(const compression_request *request, observation *o) GRAIL_MUST_CHECK;

#endif
