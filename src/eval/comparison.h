/* How the outputs of two networks for the same inputs differ, added up row by row. */
#ifndef GRAIL_EVAL_COMPARISON_H
#define GRAIL_EVAL_COMPARISON_H

#include "backend/matrix.h"

#include <grail/eval.h>

typedef struct comparison_sums {
    double max_abs, kl, max_kl;
    double distance, energy; /* sums of |right - left|^2 and |left|^2 */
    int64_t same_top, rows;
} comparison_sums;

/** The first of the largest of values[count]. */
int64_t index_of_largest(const float *values, int64_t count);

/** Adds the rows of left and right[rows, width], both logits; KL is that of right from left. */
grail_status comparison_add(matrix left, matrix right, comparison_sums *sums) GRAIL_MUST_CHECK;

/** The comparison from the sums of at least one row, without what it says of
 * vectors, and marked as one that did not check the identity. */
grail_comparison comparison_result(const comparison_sums *sums);

#endif
