/* FLAP's scores on one scale for all sites of a network. */
#ifndef GRAIL_REDUCE_FLAP_H
#define GRAIL_REDUCE_FLAP_H

#include "reduce/site_view.h"

/**
 * scores[n]: the metric WIFV of the first consumer's features (squared for heads), standardised
 * over the site (mean 0, unbiased deviation 1; 0 where all are equal), as the mean over a unit's
 * features (An et al., arXiv 2312.11983, structures AL-MM and AL-AM). Needs diagonal and means of
 * the input.
 */
grail_status flap_standardised_scores(const site_view *v, double *scores) GRAIL_MUST_CHECK;

#endif
