/* What rows of a consumer's output are multiplied by before they are added to the residual stream:
 * the share that a router gave them, or a factor of their own. Rows t of the regression then count
 * as their factor f_t squared, and its target is what the sum lacks, divided by f_t:
 *
 *   sum_t f_t^2 |W z_t - y_t|^2,   y_t = (f'_t y'_t + skip'_t - skip_t) / f_t   ('dense) */
#ifndef GRAIL_PIPELINE_NETWORK_ROW_FACTORS_H
#define GRAIL_PIPELINE_NETWORK_ROW_FACTORS_H

#include "exec/execution.h"
#include "pipeline/request/consumer_tail.h"

typedef struct row_factors {
    int64_t count;   /* rows; 0 where none are chosen */
    bool exist;      /* otherwise all factors are 1 */
    int64_t *places; /* [count] in the sum; NULL: all rows, as they are */
    double *of;      /* [count] */
} row_factors;

/** Those of the consumer whose tail this is, in the current batch of `e`, which has run up to it.
 * *out is released with row_factors_fini, also after a failure. */
grail_status row_factors_find(const execution *e, const consumer_tail *tail,
                              row_factors *out) GRAIL_MUST_CHECK;
void row_factors_fini(row_factors *f); /* works on a zeroed one */

/** Rows of X are multiplied by their factors, or divided by them; a factor of 0 gives 0. */
grail_status row_factors_multiply(const row_factors *f, matrix x) GRAIL_MUST_CHECK;
grail_status row_factors_divide(const row_factors *f, matrix x) GRAIL_MUST_CHECK;

/** What the sum has in the consumer's rows: X itself, or a matrix of the pool in its place. */
grail_status row_factors_gather(const row_factors *f, matrix_pool *pool,
                                matrix *x) GRAIL_MUST_CHECK;

#endif
