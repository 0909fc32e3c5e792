/* wanda: weights times the norms of the activations that they read (docs/numerics.md, Scores). */
#include "reduce/scores.h"
#include "reduce/selector.h"

#include <math.h>

/* A feature that never fires counts as this, so that its weights still tell it from others. */
static const double least_norm = 1e-8;

static bool is_of_channels(const site *s)
{
    return s->kind == SITE_CONV || site_kind_is_shared(s->kind);
}

static unsigned needs(const site *s)
{
    return is_of_channels(s) ? NEEDS_INPUT_NORMS : NEEDS_DIAGONAL;
}

/* (1/O) sum_o |W_oj| ||X_:,j|| */
static double weighted_norm(const site_view *v, int64_t i, double sum, int64_t rows)
{
    const double norm = sqrt(v->inputs[0].diagonal[i]);
    return sum / (double)rows * (norm < least_norm ? least_norm : norm);
}

static grail_status score(const site_view *v, double *scores)
{
    return is_of_channels(v->site) ? scores_of_rows(v, TERM_MAGNITUDE, scores)
                                   : scores_of_columns(v, TERM_MAGNITUDE, weighted_norm, scores);
}

const selector selector_wanda = {
    .name = "wanda",
    .summary = "keeps units by their weights times the norms of their activations",
    .uses_data = true,
    .needs = needs,
    .score = score,
};
