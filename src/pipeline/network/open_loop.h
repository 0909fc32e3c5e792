/* The open loop: one pass of the dense network takes the statistics of all sites, and the session
 * keeps them for other ratios (docs/numerics.md, Closed and open loop). Source: the GRAIL paper's
 * vision code. */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H
#define GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H

#include "pipeline/network/observation.h"

/** Whether statistics of the dense network are needed: in an open loop, and where a selector looks
 * at all consumers of a site. */
bool open_loop_is_needed(const compression_request *request);

/** Takes these statistics, and in an open loop the sums of squares that selectors need, unless the
 * session already has them. */
grail_status open_loop_collect(calibration_network *network) GRAIL_MUST_CHECK;
/** Copies the collected statistics into the observation; the session keeps its own for other
 * ratios. */
grail_status open_loop_take(const compression_request *request, observation *o) GRAIL_MUST_CHECK;

#endif
