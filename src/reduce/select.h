/* From scores to a selection, and the scores themselves. For every selector a large score means
 * keep. */
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

/** Finds a selector by name ("wanda"); GRAIL_ERROR_ARGUMENT lists the known ones. */
grail_status selector_from_name(const char *name, selector_kind *out) GRAIL_MUST_CHECK;
const char *selector_name(selector_kind kind);
/** i-th name, NULL beyond the last. */
const char *selector_name_at(int i);
bool selector_folds(selector_kind kind);
bool selector_draws(selector_kind kind); /* whether the result depends on the seed */
bool selector_needs_statistics(selector_kind kind);

/** The inputs of a score. */
typedef struct selector_input {
    int64_t units;               /* n */
    int64_t features_per_unit;   /* u */
    int64_t outputs;             /* O */
    const float *consumer;       /* W[O, n*u] */
    const double *gram_diagonal; /* [n*u], for selectors that need statistics */
    uint64_t seed;
    uint64_t stream; /* random stream: differs between the sites of one run */
} selector_input;

/**
 * scores[n]. magnitude-lp: sum over the unit's features of ||W_:,j||_p; wanda: sum of (1/O) sum_o
 * |W_oj| sqrt(G_jj); random: a random permutation. Folding selectors have no scores. A NaN score is
 * GRAIL_ERROR_NUMERIC naming the unit.
 */
grail_status selector_scores(selector_kind kind, const selector_input *input,
                             double *scores) GRAIL_MUST_CHECK;

/** Rows of a producer: W[n*u, columns], with a factor for each column (wanda: the norm of the input
 * channel that it reads); NULL = 1. */
typedef struct producer_rows {
    const float *weight;
    int64_t columns;
    const double *column_norms; /* [columns] or NULL */
} producer_rows;

/**
 * scores[n] from the rows of the producers: magnitude-lp: the p-norm of a unit's rows, concatenated
 * over all producers; wanda: sum |W_ji| a_i, without the exponent, which does not change the order.
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

/** Labels: every cluster once, then n-K uniform draws, permuted. *out is owned. */
grail_status fold_randomly(int64_t units, int64_t kept, uint64_t seed, uint64_t stream,
                           grail_reducer **out) GRAIL_MUST_CHECK;

#endif
