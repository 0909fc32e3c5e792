/* How much the rows of a regression count.
 *
 * What reads a residual stream begins with a norm, so an error matters relative to the norm of its
 * row. Row t therefore has the weight w_t = 1 / |x_t|^2 with the dense network's sum x_t behind the
 * consumer. |x_t|^2 counts as at least 1e-4 and at most 256 times its median over the first batch,
 * which is the same for all batches. The first keeps rows of almost nothing from deciding
 * everything; where the median is 0, a row of zeros has the weight 0. The second keeps massive
 * activations: a token of 180 times the usual length would count as 1/32,000 of another where it
 * arises, and lose some percent of its length there, which is ten times the length of another
 * token. Every later fit that meets this drift would try to put it back, at the cost of all tokens
 * that attend to it. */
#ifndef GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H
#define GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H

#include "pipeline/network/observation.h"

/** The square roots 1 / |x_t| of the current batch's weights, one for each row of a target. The
 * dense network has run through the consumer. *out is owned; NULL where rows are not weighted. */
grail_status row_weight_roots(const calibration_network *network, observation *o,
                              double **out) GRAIL_MUST_CHECK;

#endif
