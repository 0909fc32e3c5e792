/* Statistics: second-order sums of the activations at a consumer's input.
 *
 * Rows are tokens (or positions, or images). Z[T, H] is the consumer's input, Y[T, O] the target of
 * the regression. All sums are f64 sums, not means:
 *
 *   gram[H, H]        G = Z^T Z     lower triangle valid
 *   sum[H]            s = Z^T 1
 *   cross[O, H]       C = Y^T Z     only with a target
 *   target_sum[O]     t = Y^T 1     only with a target
 *   target_square[O]  q_o = sum_t Y_to^2
 *   count             T */
#ifndef GRAIL_STATS_STATISTICS_H
#define GRAIL_STATS_STATISTICS_H

#include "backend/backend.h"

#include <grail/statistics.h>

struct grail_statistics {
    int64_t width;   /* H */
    int64_t outputs; /* O, or 0 without a target */
    int64_t count;   /* T */
    double *gram;
    double *sum;
    double *cross;
    double *target_sum;
    double *target_square;
};

/** grail_statistics_accumulate for matrices of a backend's elements; y is NULL without target. */
grail_status statistics_accumulate(grail_statistics *s, const backend *b, int64_t rows,
                                   const void *z, int64_t z_stride, const void *y,
                                   int64_t y_stride) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_NUMERIC when a sum is NaN or infinite, naming the feature. */
grail_status statistics_check_finite(const grail_statistics *s) GRAIL_MUST_CHECK;

#endif
