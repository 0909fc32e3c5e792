/* From the statistics of a consumer to its narrow weight. */
#ifndef GRAIL_PIPELINE_NETWORK_COMPENSATE_H
#define GRAIL_PIPELINE_NETWORK_COMPENSATE_H

#include "pipeline/network/observation.h"

/** From the finished statistics: decides the reducer where that needs them, solves, sets the
 * consumer. The statistics are used up. */
grail_status compensate_consumer(calibration_network *network, observation *o) GRAIL_MUST_CHECK;
/** Without statistics: the consumer narrowed as it is. */
grail_status narrow_consumer_plainly(calibration_network *network, int site,
                                     int consumer) GRAIL_MUST_CHECK;

#endif
