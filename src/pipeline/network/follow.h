/* The dense network on the rows that the current one's routers chose. */
#ifndef GRAIL_PIPELINE_NETWORK_FOLLOW_H
#define GRAIL_PIPELINE_NETWORK_FOLLOW_H

#include "pipeline/network/network.h"

/**
 * Runs nodes [begin, end) of the dense network by the shares of the current one, which has run: an
 * expert's inputs and targets must be of the same rows. Where the plan drops experts of a layer,
 * what the whole layer adds by its own route and these shares do not is added to the sum before its
 * first expert, so that the sum behind the last one is that of the whole layer.
 */
grail_status dense_follow(const calibration_network *network, int begin, int end) GRAIL_MUST_CHECK;

#endif
