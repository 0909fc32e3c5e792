/* Gives a finished site its narrow shapes in the calibration network. */
#ifndef GRAIL_PIPELINE_NETWORK_NARROW_SITE_H
#define GRAIL_PIPELINE_NETWORK_NARROW_SITE_H

#include "pipeline/network/network.h"

/** The features of a cut axis's dense or wide form that the result has, out[K u]: those of the kept
 * units, or for a folding the merged ones behind the others. */
void axis_reduced_features(const calibration_network *network, const cut_axis *axis, int64_t *out);

/** A parameter of the current network with the axes cut by `site` in the narrow form, or with all
 * its cut axes for GRAPH_NONE: its shape and, in f32, its values. *out is owned; NULL where these
 * axes are narrow already. */
grail_status narrow_values(const calibration_network *network, int parameter, int site,
                           int64_t shape[PARAMETER_MAX_RANK], float **out) GRAIL_MUST_CHECK;

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

#endif
