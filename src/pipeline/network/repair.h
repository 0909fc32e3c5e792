/* REPAIR: recomputes the statistics of a BatchNorm in the narrowed network, from f64 sums over all
 * samples. BatchNorms before it are already repaired (docs/numerics.md, REPAIR; Jordan et al.,
 * arXiv 2211.08403). */
#ifndef GRAIL_PIPELINE_NETWORK_REPAIR_H
#define GRAIL_PIPELINE_NETWORK_REPAIR_H

#include "pipeline/network/network.h"

/** Sets mean and variance of one BatchNorm to those of its current input over the calibration
 * samples. Carries the sample stream to the node. */
grail_status repair_batch_norm(calibration_network *network, int node) GRAIL_MUST_CHECK;

#endif
