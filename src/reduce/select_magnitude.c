/* magnitude-l1, magnitude-l2: the norm of the weights that make a unit, or that read it
 * (docs/numerics.md, Scores). */
#include "reduce/scores.h"
#include "reduce/selector.h"

#include <math.h>

static double root(const site_view *v, int64_t i, double sum, int64_t rows)
{
    (void)v;
    (void)i;
    (void)rows;
    return sqrt(sum);
}

/* The norm of a unit's rows, concatenated over the producers, or the sum of those of its columns.
 */
static grail_status score_l1(const site_view *v, double *scores)
{
    return scores_are_of_rows(v->site) ? scores_of_rows(v, TERM_MAGNITUDE, scores)
                                       : scores_of_columns(v, TERM_MAGNITUDE, NULL, scores);
}

static grail_status score_l2(const site_view *v, double *scores)
{
    if (!scores_are_of_rows(v->site)) {
        return scores_of_columns(v, TERM_SQUARE, root, scores);
    }
    CHECK(scores_of_rows(v, TERM_SQUARE, scores));
    for (int64_t j = 0; j < v->site->units; j++) {
        scores[j] = sqrt(scores[j]);
    }
    return GRAIL_OK;
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
