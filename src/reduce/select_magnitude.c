/* magnitude-l1, magnitude-l2: the norm of the weights that make a unit, or that read it
 * (docs/numerics.md, Scores). */
#include "reduce/scores.h"
#include "reduce/selector.h"

#include <math.h>

/* The p-norm of a unit's rows, concatenated over the producers. */
static grail_status score_rows(const site_view *v, score_term term, double *scores)
{
    const grail_status status = scores_of_rows(v, term, scores);
    for (int64_t j = 0; status == GRAIL_OK && term == TERM_SQUARE && j < v->site->units; j++) {
        scores[j] = sqrt(scores[j]);
    }
    return status;
}

/* The sum of the p-norms of a unit's columns. */
static grail_status score_columns(const site_view *v, score_term term, double *scores)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    int64_t u = 0;
    int64_t rows = 0;
    TRY(sums_of_columns(v, term, &sums, &u, &rows));
    for (int64_t i = 0; term == TERM_SQUARE && i < v->site->units * u; i++) {
        sums[i] = sqrt(sums[i]);
    }
    scores_of_features(v->site->units, u, sums, scores);
out:
    memory_free(sums);
    return status;
}

static grail_status score(const site_view *v, score_term term, double *scores)
{
    return scores_are_of_rows(v->site) ? score_rows(v, term, scores)
                                       : score_columns(v, term, scores);
}

static grail_status score_l1(const site_view *v, double *scores)
{
    return score(v, TERM_MAGNITUDE, scores);
}

static grail_status score_l2(const site_view *v, double *scores)
{
    return score(v, TERM_SQUARE, scores);
}

const selector selector_magnitude_l1 = {
    .name = "magnitude-l1",
    .summary = "keeps units by the L1 norm of their weights",
    .score = score_l1,
};

const selector selector_magnitude_l2 = {
    .name = "magnitude-l2",
    .summary = "keeps units by the L2 norm of their weights",
    .score = score_l2,
};
