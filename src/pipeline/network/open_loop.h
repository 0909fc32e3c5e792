/* Statistics of the dense network: in an open loop those of all sites, which the session keeps for
 * other ratios, and those that choose units (docs/numerics.md, Closed and open loop). Source: the
 * GRAIL paper's vision code. */
#ifndef GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H
#define GRAIL_PIPELINE_NETWORK_OPEN_LOOP_H

#include "pipeline/network/decision_input.h"
#include "pipeline/network/observation.h"

/** Whether statistics of the dense network are needed, and can be had: in an open loop, and where
 * they choose the units of a site. */
bool open_loop_is_needed(const compression_request *request);

/* Statistics that the request has from a file are read where they are taken; the functions that
 * collect and release are then not called. */

/** Takes these statistics, and the sums of squares that selectors need, of the nodes from where the
 * dense network's sample stream waits up to node `end`, unless the session already has them. The
 * sample stream moves to `end` if nodes follow. */
grail_status open_loop_collect(calibration_network *network, int end) GRAIL_MUST_CHECK;
/** Frees the session's statistics of a site's consumers. */
void open_loop_release(const compression_request *request, int site);
/** What a decision needs of the input of a site's consumer; input_statistics_free frees it, even
 * after a failure. */
grail_status open_loop_input(const compression_request *request, int site, int consumer,
                             unsigned needs, input_statistics *out) GRAIL_MUST_CHECK;
/** squares[scored_input_width]: sums of squares of what the first scored producer reads. */
grail_status open_loop_squares(const compression_request *request, int site,
                               double *squares) GRAIL_MUST_CHECK;
/** Copies the statistics into the observation; the session keeps its own for other ratios. */
grail_status open_loop_take(const compression_request *request, observation *o) GRAIL_MUST_CHECK;

#endif
