/* The target of a consumer when it is computed from the dense network. */
#ifndef GRAIL_PIPELINE_NETWORK_TARGET_H
#define GRAIL_PIPELINE_NETWORK_TARGET_H

#include "pipeline/network/network.h"

/** Y[rows, outputs] of the current batch: the dense network's output at this consumer, plus the
 * drift of the residual stream that it is added to; where dropped sublayers follow, what is missing
 * from the stream to the dense one behind them, `goal`. The current network has run up to the node,
 * the dense one through it, or through what makes `goal` (GRAPH_NONE: there is none). *out belongs
 * to the pool, even after a failure: matrix_pool_give. */
grail_status dense_target(const calibration_network *network, int consumer, int goal,
                          matrix *out) GRAIL_MUST_CHECK;

/** out[rows, K u] = in[rows, n u] as a reducer maps it: the kept features, or the means of those
 * that were merged. */
grail_status reduce_value(const grail_reducer *r, int64_t features, matrix in,
                          matrix out) GRAIL_MUST_CHECK;

#endif
