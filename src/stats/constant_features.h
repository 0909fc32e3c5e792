/* Features that are constant up to the rounding of their sums.
 *
 * Centring subtracts two large numbers for a feature whose mean is large beside its deviation:
 * A_jj = G_jj - s_j^2 / T. G is summed in the precision of an instance's products and s in f64, so
 * of a constant feature a residue of either sign is left, and likewise in its row and column. What
 * is not above the rounding of the sums says nothing, and counts as 0 wherever sums are centred.
 * Derivation of the bounds: docs/numerics.md, Constant features. */
#ifndef GRAIL_STATS_CONSTANT_FEATURES_H
#define GRAIL_STATS_CONSTANT_FEATURES_H

#include "stats/statistics.h"

/** The share of G_jj that rounding may leave of a constant feature in sums over `rows` rows that
 * the instance made: that of its Gram matrices, and 2^-52 for each row of the f64 sums. */
double sums_rounding(const backend *b, int64_t rows);

/** Whether a feature with G_jj = square and s_j^2 / T = square_of_mean does not vary. Without
 * centring square_of_mean is 0, and only a feature that is always 0 does not. */
bool feature_is_constant(double square, double square_of_mean, double rounding);

/** constant[n] and the diagonal of the centred sums, varying[n], from G_jj in diagonal[n] and s_j^2
 * / T in varying[n]: varying[j] <- G_jj - s_j^2 / T, or 0 where feature j is constant. */
void centre_diagonal(int64_t n, const double *diagonal, double rounding, double *varying,
                     bool *constant);

/** Columns of constant features <- 0; constant[columns of m]. */
grail_status clear_constant_columns(const bool *constant, matrix m) GRAIL_MUST_CHECK;
/** Their rows and columns in the lower triangle of m[n, n] <- 0; constant[n]. */
grail_status clear_constant_pairs(const bool *constant, matrix m) GRAIL_MUST_CHECK;

/** Makes the products of constant features those of their sums, G_ij = s_i s_j / T and C_oj =
 * t_o s_j / T, which is exact for a constant up to f64, whatever G was summed in: else what is left
 * of them would get into the residuals of other features. */
grail_status statistics_settle_constants(grail_statistics *s) GRAIL_MUST_CHECK;

/** What a fit and the selectors take: that, of sums that are finite; others are
 * GRAIL_ERROR_NUMERIC. */
grail_status statistics_settle(grail_statistics *s) GRAIL_MUST_CHECK;

#endif
