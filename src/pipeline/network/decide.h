/* When a site's reducer is decided, and from what. */
#ifndef GRAIL_PIPELINE_NETWORK_DECIDE_H
#define GRAIL_PIPELINE_NETWORK_DECIDE_H

#include "pipeline/network/observation.h"

/** At the first producer: foldings, and selections that need no statistics of what a consumer
 * reads; others stay undecided. A folding's merged rows are appended. */
grail_status decide_at_producer(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** At the first consumer, of a site that is undecided: from the finished statistics. */
grail_status decide_at_consumer(calibration_network *network,
                                const observation *o) GRAIL_MUST_CHECK;

#endif
