/* From scores to a selection, and the scores themselves. LARGE = keep, for every selector. */
#ifndef GRAIL_REDUCE_SELECT_H
#define GRAIL_REDUCE_SELECT_H

#include "reduce/reducer.h"

typedef enum selector_kind {
    SELECTOR_RANDOM,
    SELECTOR_MAGNITUDE_L1,
    SELECTOR_MAGNITUDE_L2,
    SELECTOR_WANDA,
    SELECTOR_FOLD,
    SELECTOR_RANDOM_FOLD
} selector_kind;

/** By name ("wanda"); GRAIL_ERROR_ARGUMENT lists the known ones. */
grail_status selector_from_name(const char *name, selector_kind *out) GRAIL_MUST_CHECK;
const char *selector_name(selector_kind kind);
/** i-th name, NULL beyond the last. */
const char *selector_name_at(int i);
bool selector_folds(selector_kind kind);
bool selector_draws(selector_kind kind); /* whether the seed decides */
bool selector_needs_statistics(selector_kind kind);

/** What a score may look at. */
typedef struct selector_input {
    int64_t units;               /* n */
    int64_t features_per_unit;   /* u */
    int64_t outputs;             /* O */
    const float *consumer;       /* W[O, n*u] */
    const double *gram_diagonal; /* [n*u], for selectors that need statistics */
    uint64_t seed;
    uint64_t stream; /* tells the sites of one run apart */
} selector_input;

/**
 * scores[n]. magnitude-lp: sum over the unit's features of ||W_:,j||_p (methods.md 5.3); wanda:
 * sum of (1/O) sum_o |W_oj| sqrt(G_jj) (5.4); random: a random permutation (5.1). Folding selectors
 * have no scores. A NaN score is GRAIL_ERROR_NUMERIC naming the unit.
 */
grail_status selector_scores(selector_kind kind, const selector_input *input,
                             double *scores) GRAIL_MUST_CHECK;

/** Rows of a producer: W[n*u, columns], with what each column is worth (wanda: the norm of the
 * input channel behind it), NULL = 1. */
typedef struct producer_rows {
    const float *weight;
    int64_t columns;
    const double *column_norms; /* [columns] or NULL */
} producer_rows;

/**
 * scores[n] from the rows of the producers: magnitude-lp: the p-norm of a unit's rows, all
 * producers concatenated (methods.md 5.3); wanda: sum |W_ji| a_i (5.4, monotone exponent left out).
 * A NaN score is GRAIL_ERROR_NUMERIC naming the unit.
 */
grail_status selector_row_scores(selector_kind kind, int64_t units, int64_t features_per_unit,
                                 int count, const producer_rows producers[],
                                 double *scores) GRAIL_MUST_CHECK;

/**
 * Keeps the K best units, ties to the lower index. With groups > 1 the units are cut into that many
 * equal runs and K/groups are kept of each (query heads per KV group). *out is owned.
 */
grail_status select_best(int64_t units, int64_t kept, int64_t groups, const double *scores,
                         grail_reducer **out) GRAIL_MUST_CHECK;

/** Labels: every cluster once, then n-K uniform draws, permuted (methods.md 5.2). *out is owned. */
grail_status fold_randomly(int64_t units, int64_t kept, uint64_t seed, uint64_t stream,
                           grail_reducer **out) GRAIL_MUST_CHECK;

#endif
