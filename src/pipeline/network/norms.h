/* Norms in the narrowed network: the statistics of BatchNorms, and weights over a width that is
 * cut. */
#ifndef GRAIL_PIPELINE_NETWORK_NORMS_H
#define GRAIL_PIPELINE_NETWORK_NORMS_H

#include "pipeline/network/pass.h"
#include "pipeline/request/cuts.h"

/** REPAIR (docs/numerics.md; Jordan et al., arXiv 2211.08403): sets mean and variance of one
 * BatchNorm to those of its current input over the calibration samples, from f64 sums. BatchNorms
 * before it are already repaired. Carries the sample stream to the node. */
grail_status repair_batch_norm(sample_passes *passes, int node) GRAIL_MUST_CHECK;

/** A norm over a width that is cut divides by the mean square of what is left, which differs from
 * row to row from that of all (docs/numerics.md, Norms over a width that is cut). Multiplies its
 * weight, for the units that are left on this axis, by the factor with which what
 * it makes of them comes closest to what it made of them among all, over the samples: with z what
 * it makes of them by themselves, and x what it makes of them among all, sum x z / sum z z. Its
 * input is not narrow yet. */
grail_status rescale_norm(const cut_axis *axis, const grail_reducer *reducer, int node_index,
                          sample_passes *passes) GRAIL_MUST_CHECK;

#endif
