/* The shapes of sites in the current network: how it gets merged units, and narrow shapes when a
 * site is finished. */
#ifndef GRAIL_PIPELINE_NETWORK_NARROW_H
#define GRAIL_PIPELINE_NETWORK_NARROW_H

#include "pipeline/network/pass.h"
#include "pipeline/network/site_result.h"
#include "pipeline/request/cuts.h"

/** Sets the producers and channel parameters of a folded site in the current network to [rows |
 * merged rows] of each of the segments that the site has there. */
grail_status site_append_merged(const cutting *cut, int site, const grail_reducer *reducer,
                                parameter_store *dense, parameter_store *current) GRAIL_MUST_CHECK;

/** The features of a cut axis's dense or wide form that the result has, in order: those of the kept
 * units, or for a folding the merged ones behind the others, and what is not cut of an axis that
 * has `dense` features. In the columns of a convolution in groups these are those of the rows of
 * one group. */
void axis_reduced_features(const plan *p, const site_result *results, const cut_axis *axis,
                           int64_t group, int64_t dense, int64_t *out);

/** A parameter of the current network with the axes cut by `site` in the narrow form, or with all
 * its cut axes for GRAPH_NONE: its shape and, in f32, its values. *out is owned; NULL where these
 * axes are narrow already. */
grail_status narrow_values(const cutting *cut, const site_result *results, parameter_store *current,
                           int parameter, int site, int64_t shape[PARAMETER_MAX_RANK],
                           float **out) GRAIL_MUST_CHECK;

/**
 * After the last consumer of a site is set: those of its producers, channel parameters and
 * consumers that run again take their narrow shapes, and so does the input of that consumer in the
 * sample stream. What runs from then on is narrow. A site that spans blocks, or is a part of a
 * value, stays as it is: its axis may cross the place where a sample stream waits. In an open loop
 * nothing runs.
 */
grail_status site_take_narrow_shape(const cutting *cut, const site_result *results, int site,
                                    sample_passes *passes) GRAIL_MUST_CHECK;

/** Every parameter that is cut, and the slices, take their narrow shapes, when all sites are
 * finished; the sample streams stand before node 0. */
grail_status sites_take_narrow_shapes(const cutting *cut, const site_result *results,
                                      network_run *current) GRAIL_MUST_CHECK;

/** Sets the weights and biases of the consumers of the dropped sublayers in a block to zero, so
 * that the residual stream passes them by. */
grail_status silence_block(const cutting *cut, int block,
                           parameter_store *current) GRAIL_MUST_CHECK;

/** The same for all blocks. */
grail_status silence_dropped(const cutting *cut, parameter_store *current) GRAIL_MUST_CHECK;

#endif
