/* Statistics of the dense network: in an open loop those of all sites, which the session keeps for
 * other ratios, and those that choose units (docs/numerics.md, Closed and open loop). Source: the
 * GRAIL paper's vision code. */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H
#define GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H

#include "pipeline/network/observation.h"

/** Whether statistics of the dense network are needed: in an open loop, and where they choose the
 * units of a site. */
bool open_loop_is_needed(const compression_request *request);

/** Takes these statistics, and the sums of squares that selectors need, of the nodes from where the
 * dense network's sample stream waits up to node `end`, unless the session already has them. The
 * sample stream moves to `end` if nodes follow. */
grail_status open_loop_collect(calibration_network *network, int end) GRAIL_MUST_CHECK;
/** Frees the session's statistics of a site's consumers. */
void open_loop_release(const compression_request *request, int site);
/** Copies the collected statistics into the observation; the session keeps its own for other
 * ratios. */
grail_status open_loop_take(const compression_request *request, observation *o) GRAIL_MUST_CHECK;

#endif
