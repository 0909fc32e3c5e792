/* How much the rows of a regression count.
 *
 * What reads a residual stream begins with a norm, so an error matters relative to the norm of its
 * row. Row t therefore has the weight w_t = 1 / |x_t|^2 with the dense network's sum x_t behind the
 * consumer, within bounds that follow from the median over the first batch, the same for all
 * batches (stats/row_squares.h). Without the upper one every later fit that meets the drift of a
 * massive activation would try to put it back, at the cost of all tokens that attend to it. */
#ifndef GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H
#define GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H

#include "pipeline/network/observation.h"

/** The square roots 1 / |x_t| of the current batch's weights, one for each row of a target. The
 * dense network has run through the consumer. *out is owned; NULL where rows are not weighted. */
grail_status row_weight_roots(const calibration_network *network, observation *o,
                              double **out) GRAIL_MUST_CHECK;

#endif
