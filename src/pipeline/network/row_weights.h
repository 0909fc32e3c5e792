/* How much the rows of a regression count.
 *
 * What reads a residual stream begins with a norm, so an error matters relative to the norm of its
 * row. Row t therefore has the weight w_t = 1 / |x_t|^2 with the dense network's sum x_t behind the
 * consumer, within bounds that follow from the median over the first batch, the same for all
 * batches and ranks (stats/row_squares.h). Without the upper one every later fit that meets the
 * drift of a massive activation would try to put it back, at the cost of all tokens that attend to
 * it.
 *
 * Where rows are multiplied by a factor before the sum, they count as its square, too. */
#ifndef GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H
#define GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H

#include "pipeline/network/observation.h"

/** The square roots of the weights of the current batch, one for each row of the consumer: factors,
 * and 1 / |x_t| where the observation asks for it. Both networks have run up to the consumer, the
 * dense one through it where its sums count. *out is owned; NULL where rows count alike. */
grail_status row_weight_roots(const calibration_network *network, observation *o,
                              double **out) GRAIL_MUST_CHECK;

/** Takes that median, on all ranks at once; rank 0 has run the networks for the first batch. A rank
 * without others takes it when it first needs it. */
grail_status row_weights_begin(const calibration_network *network, observation *o) GRAIL_MUST_CHECK;

/** Those of the factors alone, in the current batch of `e`. */
grail_status row_factor_roots(const execution *e, int consumer, double **out) GRAIL_MUST_CHECK;

#endif
