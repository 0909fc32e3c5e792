/* How much the rows of a consumer count in its regression.
 *
 * What reads a residual stream begins with a norm, so an error matters relative to the norm of its
 * row. Row t therefore has the weight w_t = 1 / |x_t|^2 with the dense network's sum x_t behind the
 * consumer, within bounds that follow from the median over the first batch, the same for all
 * batches and ranks (stats/row_squares.h). Without the upper one every later fit that meets the
 * drift of a massive activation would try to put it back, at the cost of all tokens that attend to
 * it. Where rows are multiplied by a factor before the sum, they count as its square, too. */
#ifndef GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H
#define GRAIL_PIPELINE_NETWORK_ROW_WEIGHTS_H

#include "pipeline/network/target.h"

/** *out[1, rows] = 1 / |x_t| in the current batch of the dense network, which has run up to the
 * x_t: those of the value `goal`, or where that is GRAPH_NONE the sums behind a consumer, with
 * `scale` in between. *median is that of roots_of_squares. *out is owned even after a failure; no
 * matrix where the batch has no such rows. */
grail_status row_weights_of_stream(const execution *dense, int consumer, int goal,
                                   const drift_scale *scale, double *median,
                                   matrix *out) GRAIL_MUST_CHECK;

/** *roots[1, rows] <- the factors of a consumer's rows, times what is there where it exists: no
 * matrix where there are neither. A root's sign does not matter. Owned even after a failure. */
grail_status row_weights_put_factors(const execution *e, int consumer,
                                     matrix *roots) GRAIL_MUST_CHECK;

#endif
