/* The target of a consumer when it is computed from the dense network. */
#ifndef GRAIL_PIPELINE_NETWORK_TARGET_H
#define GRAIL_PIPELINE_NETWORK_TARGET_H

#include "exec/execution.h"
#include "pipeline/network/drift_scale.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/site_result.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/cuts.h"

/** What rows of a consumer's output are multiplied by before they are added to the residual stream:
 * the share that a router gave them, or a factor of their own. Rows t of the regression then count
 * as their factor f_t squared, and its target is what the sum lacks, divided by f_t:
 *
 *   sum_t f_t^2 |W z_t - y_t|^2,   y_t = (f'_t y'_t + skip'_t - skip_t) / f_t   ('dense) */
typedef struct row_factors {
    bool exist;    /* otherwise all factors are 1 */
    matrix places; /* [1, rows] in the sum, borrowed; no matrix: all rows, as they are */
    matrix of;     /* [1, rows], of no rows where none are chosen; shares are borrowed */
} row_factors;

/** Those of the consumer whose tail this is, in the current batch of `e`, which has run up to it.
 * *out is released with row_factors_fini, also after a failure. */
grail_status row_factors_find(const execution *e, const consumer_tail *tail,
                              row_factors *out) GRAIL_MUST_CHECK;
void row_factors_fini(row_factors *f); /* works on a zeroed one */

/** Rows of X are multiplied by their factors, or divided by them; a factor of 0 gives 0. */
grail_status row_factors_multiply(const row_factors *f, matrix x) GRAIL_MUST_CHECK;

/** What the sum has in the consumer's rows: X itself, or a matrix of the pool in its place. */
grail_status row_factors_gather(const row_factors *f, matrix_pool *pool,
                                matrix *x) GRAIL_MUST_CHECK;

/** What dense targets are made of: both networks in the same batch, and what is cut in the current
 * one. All is borrowed. */
typedef struct target_source {
    const cutting *cut;
    const site_result *results; /* [sites], whose reducers are decided so far */
    const network_run *dense, *current;
} target_source;

/** Y[rows, outputs] of the current batch: the dense network's output at this consumer, plus the
 * drift of the residual stream that it is added to; where dropped sublayers follow, what is missing
 * from the stream to the dense one behind them, `goal`. The current network has run up to the node,
 * the dense one through it, or through what makes `goal` (GRAPH_NONE: there is none). `scale`
 * is the consumer's, which is chosen by the first batch that it meets. *out belongs to the pool,
 * even after a failure: matrix_pool_give. */
grail_status dense_target(const target_source *from, int consumer, int goal, drift_scale *scale,
                          matrix *out) GRAIL_MUST_CHECK;

/** out[rows, K u] = in[rows, n u] as a reducer maps it: the kept features, or the means of those
 * that were merged. */
grail_status reduce_value(const grail_reducer *r, int64_t features, matrix in,
                          matrix out) GRAIL_MUST_CHECK;

#endif
