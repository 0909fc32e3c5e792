/* REPAIR: the statistics of a BatchNorm taken anew of the narrowed network, exactly: sums of all
 * samples in f64, upstream BatchNorms already repaired (methods.md 7.1). */
#ifndef GRAIL_PIPELINE_NETWORK_REPAIR_H
#define GRAIL_PIPELINE_NETWORK_REPAIR_H

#include "pipeline/network/network.h"

/** Mean and variance of one BatchNorm over the calibration samples as the network is now. Carries
 * the sample stream to the node. */
grail_status repair_batch_norm(calibration_network *network, int node) GRAIL_MUST_CHECK;

#endif
