/* How the outputs of two networks for the same inputs differ, added up row by row. */
#ifndef GRAIL_EVAL_COMPARISON_H
#define GRAIL_EVAL_COMPARISON_H

#include "backend/matrix.h"

#include <grail/eval.h>

typedef struct comparison_sums {
    double max_abs, kl, max_kl;
    double distance, energy; /* sums of |right - left|^2 and |left|^2 */
    double cosines, least_cosine;
    int64_t same_top, rows, pools;
} comparison_sums;

/** Adds the rows of left and right[rows, width], both logits; KL is that of right from left. */
grail_status comparison_add(matrix left, matrix right, comparison_sums *sums) GRAIL_MUST_CHECK;

/** The sums of the rows of one sample, in both networks: what its mean-pooled vectors point to. */
typedef struct comparison_pool {
    double *left, *right; /* [width], owned */
    int64_t width;
} comparison_pool;

/** Zeros; comparison_pool_fini frees *out, also after a failure. */
grail_status comparison_pool_init(int64_t width, comparison_pool *out) GRAIL_MUST_CHECK;
void comparison_pool_fini(comparison_pool *p); /* works on a zeroed one */
grail_status comparison_pool_add(matrix left, matrix right, comparison_pool *p) GRAIL_MUST_CHECK;
/** Adds the cosine between both: 1 where both are zeros, and 0 where one is. */
void comparison_add_pool(const comparison_pool *p, comparison_sums *sums);

/** The comparison from the sums of at least one row, marked as one that did not check the
 * identity. */
grail_comparison comparison_result(const comparison_sums *sums);

#endif
