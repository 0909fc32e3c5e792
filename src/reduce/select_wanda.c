/* wanda: weights times the norms of the activations that they read (docs/numerics.md, Scores).
 * wanda++ adds their regional gradients (Yang et al., Wanda++, arXiv 2503.04992). */
#include "reduce/plan.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

#include <math.h>

/* A feature that never fires counts as this, so that its weights still tell it from others. */
static const double least_norm = 1e-8;

static bool is_of_channels(const site *s)
{
    return s->kind == SITE_CONV || s->kind == SITE_GROUPS || site_kind_is_shared(s->kind);
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

/* What a gradient counts beside a norm, alpha; the authors' value. */
static const double gradient_share = 100.0;

/* Gradients are of rows that count alike. So the norms beside them are of as many rows whose mean
 * weight is 1: ||X_:,j||^2 = (N / T) D_jj of N rows with the sum of weights T. */
static double norm_of_feature(const input_statistics *in, int64_t feature)
{
    return in->weight > 0.0 ? sqrt(in->diagonal[feature] * in->rows / in->weight) : 0.0;
}

/* values[width]: (1/O) sum_o (alpha G_oj + ||X_:,j||) |W_oj|. */
static void score_features(const unit_matrix *w, const input_statistics *in, double *values)
{
    for (int64_t o = 0; o < w->others; o++) {
        const float *row = w->values + o * in->width;
        const float *gradients = in->gradients + o * in->width;
        for (int64_t j = 0; j < in->width; j++) {
            const double factor = gradient_share * (double)gradients[j] + norm_of_feature(in, j);
            values[j] += factor * fabs((double)row[j]) / (double)w->others;
        }
    }
}

grail_status wanda_plus_scores(const site_view *v, double *scores)
{
    grail_status status = GRAIL_OK;
    const input_statistics *in = &v->inputs[0];
    unit_matrix w = {0};
    double *values = NULL;
    TRY(site_view_consumer(v, 0, &w));
    TRY(memory_new(&values, (size_t)in->width, sizeof values[0]));
    score_features(&w, in, values);
    scores_of_features(v->site->units, w.features, values, scores);
out:
    unit_matrix_fini(&w);
    memory_free(values);
    return status;
}

/* The regional optimisation trains whole blocks, so its weights are the authors' update. It is left
 * out where a fit follows: that begins with the dense weights of the consumers and would undo it,
 * and the steps are too short to bring back a unit whose columns are zero, so they change no
 * decision. */
static const compensation trained_regions = {
    .enabled = false,
    .alpha = {GRAIL_NUMBER_GIVEN, 1e-3}, /* unused: no weight is fitted */
    .regional_training = true,
};

const selector selector_wanda_plus = {
    .name = "wanda++",
    .summary = "keeps units by their weights times the norms of their activations, plus the "
               "gradients of the block's output",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS, /* the authors speak of blocks of language models alone */
    .own = &trained_regions,
    .always_needs = NEEDS_DIAGONAL | NEEDS_GRADIENTS,
    .score = wanda_plus_scores,
};
