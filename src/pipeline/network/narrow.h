/* The shapes of sites in the calibration network, and the narrow parameters that come of them. */
#ifndef GRAIL_PIPELINE_NETWORK_NARROW_H
#define GRAIL_PIPELINE_NETWORK_NARROW_H

#include "pipeline/network/network.h"

/** Sets the producers and channel parameters of a folded site in the current network to [rows |
 * merged rows]. */
grail_status site_append_merged(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** The features of a cut axis's dense or wide form that the result has, out[K u]: those of the kept
 * units, or for a folding the merged ones behind the others. */
void axis_reduced_features(const calibration_network *network, const cut_axis *axis, int64_t *out);

/**
 * After the last consumer of a site is set: those of its producers, channel parameters and
 * consumers that run again take their narrow shapes, and so does the input of that consumer in the
 * sample stream. What runs from then on is narrow. A site that spans blocks stays as it is: its
 * axis may cross the place where a sample stream waits. In an open loop nothing runs.
 */
grail_status site_take_narrow_shape(calibration_network *network, int site) GRAIL_MUST_CHECK;

/** The same for every cut site of an open loop, when all are finished; the sample streams stand
 * before node 0. */
grail_status sites_take_narrow_shapes(calibration_network *network) GRAIL_MUST_CHECK;

/** Whether a parameter's result differs from the checkpoint's bytes. */
bool parameter_is_changed(const calibration_network *network, int parameter);
/** The finished parameter with the shape of the narrowed graph, f32; *out is owned, even
 * after a failure. */
grail_status narrow_parameter(const calibration_network *network, int parameter,
                              float **out) GRAIL_MUST_CHECK;
/** All finished parameters, as a store whose parent is the dense one; *out is owned, even
 * after a failure. */
grail_status narrow_store(const calibration_network *network,
                          parameter_store **out) GRAIL_MUST_CHECK;

/** Sets the weights and biases of the consumers of the dropped sublayers in a block to zero, so
 * that the residual stream passes them by. */
grail_status silence_block(calibration_network *network, int block) GRAIL_MUST_CHECK;

/** The same for all blocks. */
grail_status silence_dropped(calibration_network *network) GRAIL_MUST_CHECK;

#endif
