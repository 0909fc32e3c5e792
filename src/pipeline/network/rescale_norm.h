/* Norms over a width that is cut: they divide by the mean square of what is left, which differs
 * from row to row from that of all (docs/numerics.md, Norms over a width that is cut). */
#ifndef GRAIL_PIPELINE_NETWORK_RESCALE_NORM_H
#define GRAIL_PIPELINE_NETWORK_RESCALE_NORM_H

#include "pipeline/network/network.h"

/** Multiplies the weight of such a norm, for the units that are left, by the factor with which what
 * it makes of them comes closest to what it made of them among all, over the samples: with z what
 * it makes of them by themselves, and x what it makes of them among all, sum x z / sum z z. Its
 * input is not narrow yet. */
grail_status rescale_norm(calibration_network *network, int node_index) GRAIL_MUST_CHECK;

#endif
