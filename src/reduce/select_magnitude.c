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
    for (int64_t j = 0; j < v->site->units; j++) {
        scores[j] = 0.0;
        for (int64_t i = j * u; i < (j + 1) * u; i++) {
            scores[j] += term == TERM_SQUARE ? sqrt(sums[i]) : sums[i];
        }
    }
out:
    memory_free(sums);
    return status;
}

static grail_status select_by_magnitude(const site_view *v, score_term term, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    double *scores = NULL;
    TRY(memory_new(&scores, (size_t)v->site->units, sizeof scores[0]));
    TRY(scores_are_of_rows(v->site) ? score_rows(v, term, scores) : score_columns(v, term, scores));
    TRY(select_best(v->site->units, v->kept, v->site->groups, scores, out));
out:
    memory_free(scores);
    return status;
}

static grail_status select_l1(const site_view *v, grail_reducer **out)
{
    return select_by_magnitude(v, TERM_MAGNITUDE, out);
}

static grail_status select_l2(const site_view *v, grail_reducer **out)
{
    return select_by_magnitude(v, TERM_SQUARE, out);
}

const selector selector_magnitude_l1 = {
    .name = "magnitude-l1",
    .summary = "keeps units by the L1 norm of their weights",
    .decide = select_l1,
};

const selector selector_magnitude_l2 = {
    .name = "magnitude-l2",
    .summary = "keeps units by the L2 norm of their weights",
    .decide = select_l2,
};
