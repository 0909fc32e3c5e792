/* Scores of units, and the selection of the best: what the selectors that score have in common. For
 * every score a large one means keep. */
#ifndef GRAIL_REDUCE_SCORES_H
#define GRAIL_REDUCE_SCORES_H

#include "reduce/reducer.h"
#include "reduce/site_view.h"

/** Whether a site is scored by the rows of its producers if no statistics of its consumers are
 * needed: channels, and neurons with a single producer. Gated neurons and heads are scored by the
 * columns of the first consumer. */
bool scores_are_of_rows(const site *s);

/** What is summed over weights w. */
typedef enum score_term { TERM_MAGNITUDE, TERM_SQUARE } score_term;

/**
 * scores[n]: sum over the rows of a unit in the scored producers of |w_ji| a_i, or of its square;
 * a_i is the norm of input feature i where the view has input norms (one producer then), else 1.
 */
grail_status scores_of_rows(const site_view *v, score_term term, double *scores) GRAIL_MUST_CHECK;

/** sums[n*u] over the rows of the first consumer's columns; *features becomes u and *rows the
 * number of rows. *sums is owned. */
grail_status sums_of_columns(const site_view *v, score_term term, double **sums, int64_t *features,
                             int64_t *rows) GRAIL_MUST_CHECK;

/** The value of feature i, 0 .. n*u-1, from the sum over the `rows` rows of its column. */
typedef double (*feature_value)(const site_view *v, int64_t i, double sum, int64_t rows);
/** scores[n]: the sum over a unit's features of their values; `of` NULL: of their sums. */
grail_status scores_of_columns(const site_view *v, score_term term, feature_value of,
                               double *scores) GRAIL_MUST_CHECK;

/** scores[n]: the sum over the `features` features of a unit. */
void scores_of_features(int64_t units, int64_t features, const double *values, double *scores);

/** Fills scores[n], which begin as zeros. */
typedef grail_status (*score_function)(const site_view *v, double *scores);
/** Keeps the best units of a site by their scores, as select_best does. */
grail_status select_by_scores(const site_view *v, score_function score,
                              grail_reducer **out) GRAIL_MUST_CHECK;

/**
 * Keeps the K best units, ties to the lower index. With groups > 1 the units are cut into that many
 * equal runs and K/groups are kept of each (query heads per KV group). Where the units of a run all
 * score equal, the selection is marked as tied. A NaN score is GRAIL_ERROR_NUMERIC naming the unit.
 * *out is owned.
 */
grail_status select_best(int64_t units, int64_t kept, int64_t groups, const double *scores,
                         grail_reducer **out) GRAIL_MUST_CHECK;

/**
 * FLAP's scores on one scale for all sites: scores[n]: the metric WIFV of the first consumer's
 * features (squared for heads), standardised over the site (mean 0, unbiased deviation 1; 0 where
 * all are equal), as the mean over a unit's features (An et al., arXiv 2312.11983, structures AL-MM
 * and AL-AM). Needs diagonal and means of the input.
 */
grail_status flap_standardised_scores(const site_view *v, double *scores) GRAIL_MUST_CHECK;

/** Those of wanda++, which its tests look at: scores[n]: the sum over a unit's features j of (1/O)
 * sum_o (100 G_oj + ||X_:,j||_2) |W_oj|, of the first consumer; the view has its diagonal and
 * gradients. */
grail_status wanda_plus_scores(const site_view *v, double *scores) GRAIL_MUST_CHECK;

#endif
