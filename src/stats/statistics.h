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
 *   count             T
 *   weight            T
 *
 * The outputs of a convolution in G groups see the features of their own group alone, so there are
 * the blocks of these: gram[H, H / G] and cross[O, H / G], row i over the features of i's group.
 *
 * With weights w_t, row t counts as w_t rows: G = sum_t w_t z_t z_t^T, s = sum_t w_t z_t, and so
 * on; the weight is sum_t w_t. Means are sums divided by it. */
#ifndef GRAIL_STATS_STATISTICS_H
#define GRAIL_STATS_STATISTICS_H

#include "backend/operations.h"

#include <grail/statistics.h>

/** The sums are f64 matrices of one instance; vectors have one row. */
struct grail_statistics {
    backend *owner;
    int64_t width;   /* H */
    int64_t outputs; /* O, or 0 without a target */
    int64_t groups;  /* G equal runs of features, and of outputs; 1 of most */
    int64_t count;   /* T */
    double weight;
    matrix weights; /* [1, 1] what is to be added to the weight */
    matrix gram;
    matrix sum;
    matrix cross; /* this and the following do not exist without a target */
    matrix target_sum;
    matrix target_square;
};

/** As grail_statistics_create, on an instance, which must outlive them. */
grail_status statistics_create(backend *b, int64_t width, int64_t outputs,
                               grail_statistics **out) GRAIL_MUST_CHECK;

/** The same in groups, which divide width and outputs. */
grail_status statistics_create_grouped(backend *b, int64_t width, int64_t outputs, int64_t groups,
                                       grail_statistics **out) GRAIL_MUST_CHECK;

/** Those of one group, borrowed: what is changed of its sums changes in `s`, too. With one group
 * they are *s. */
grail_statistics statistics_group(const grail_statistics *s, int64_t group);
/** A copy of them; *out is owned, even after a failure: grail_statistics_free. */
grail_status statistics_of_group(const grail_statistics *s, int64_t group,
                                 grail_statistics **out) GRAIL_MUST_CHECK;

/** Frees the matrices alone. */
void statistics_free_sums(grail_statistics *s);

/** As grail_statistics_accumulate, for Z[rows, H] and Y[rows, O] of the instance's values, with any
 * row stride; y is no_matrix without a target. */
grail_status statistics_accumulate(grail_statistics *s, matrix z, matrix y) GRAIL_MUST_CHECK;

/** The same with weights w_t = root[t]^2, root[1, rows] in f64. Overwrites y, and room[rows, H],
 * which may be z. The weight of the rows waits in `weights` for statistics_read_weight. */
grail_status statistics_accumulate_weighted(grail_statistics *s, matrix root, matrix z, matrix y,
                                            matrix room) GRAIL_MUST_CHECK;
grail_status statistics_read_weight(grail_statistics *s) GRAIL_MUST_CHECK;

/** A copy on the same instance. *out is owned, even after a failure: grail_statistics_free. */
grail_status statistics_copy(const grail_statistics *s, grail_statistics **out) GRAIL_MUST_CHECK;

/** Statistics of the same rows with a part of the target alone, its outputs first .. first + count
 * - 1. Everything is copied; *out is owned, even after a failure: grail_statistics_free. */
grail_status statistics_of_outputs(const grail_statistics *s, int64_t first, int64_t count,
                                   grail_statistics **out) GRAIL_MUST_CHECK;

/** s += those of the same rows with more features, of which these are from `first` on; without a
 * target. */
grail_status statistics_add_columns(grail_statistics *s, const grail_statistics *wider,
                                    int64_t first) GRAIL_MUST_CHECK;

/** Y <- Y - 1 b^T in the sums, b[O] = bias: a dense target contains the consumer's own bias, which
 * stays where it is.
 *   C <- C - b s^T,  q_o <- q_o - 2 b_o t_o + T b_o^2,  t <- t - T b */
grail_status statistics_shift_target(grail_statistics *s, const double *bias) GRAIL_MUST_CHECK;

/** Watches the rows `name` (operations.h); so do the sums above. */
grail_status statistics_watch_rows(const char *name, matrix x) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_NUMERIC when a root of a row's weight is not finite or below 0; NULL is allowed. */
grail_status statistics_check_roots(int64_t rows, const double *roots) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_NUMERIC when a sum is NaN or infinite, naming the feature. */
grail_status statistics_check_finite(const grail_statistics *s) GRAIL_MUST_CHECK;

#endif
