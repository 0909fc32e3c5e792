/* How the outputs of two networks for the same inputs differ, added up row by row. */
#ifndef GRAIL_EVAL_COMPARISON_H
#define GRAIL_EVAL_COMPARISON_H

#include "exec/execution.h"

#include <grail/eval.h>

typedef struct comparison_sums {
    double max_abs, kl, max_kl;
    double distance, energy; /* sums of |right - left|^2 and |left|^2 */
    int64_t same_top, rows;
} comparison_sums;

/** Adds the rows of left and right[rows, width], both logits; KL is that of right from left. */
grail_status comparison_add(matrix left, matrix right, comparison_sums *sums) GRAIL_MUST_CHECK;

/** The comparison from the sums of at least one row, without what it says of
 * vectors, and marked as one that did not check the identity. */
grail_comparison comparison_result(const comparison_sums *sums);

/** Adds each output of two networks that have run on the same images; sums[outputs of LEFT]. */
grail_status comparison_add_outputs(const execution *left, const execution *right,
                                    comparison_sums *sums) GRAIL_MUST_CHECK;

/** What the sums say of output i of `g`. */
grail_output_comparison comparison_of_output(const graph *g, int i, const comparison_sums *sums);

#endif
