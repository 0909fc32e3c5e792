/* Finished blocks of a run that is continued: narrow tensors back into the calibration network. */
#ifndef GRAIL_PIPELINE_NETWORK_RECORDED_H
#define GRAIL_PIPELINE_NETWORK_RECORDED_H

#include "pipeline/network/network.h"

/** Sets a consumer of a decided site, and what took its bias, from its recorded tensors. */
grail_status widen_consumer(calibration_network *network, int site, int consumer,
                            const checkpoint *recorded) GRAIL_MUST_CHECK;

#endif
