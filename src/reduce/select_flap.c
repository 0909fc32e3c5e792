/* flap, flap-ifv, flap-wifn: the scores of FLAP (An et al., arXiv 2312.11983), from the fluctuation
 * of the consumer's input around its mean (docs/numerics.md, Scores). */
#include "reduce/plan.h"
#include "reduce/scores.h"
#include "reduce/selector.h"
#include "stats/constant_features.h"

#include <math.h>

/* The variance of a feature, G_jj / T - mu_j^2. FLAP's is (G_jj - T mu_j^2) / (T - 1), the same
 * factor for all features of a site, which no choice sees; it means nothing where T is a sum of
 * weights, which may be below 1. */
static double fluctuation(const input_statistics *in, int64_t i)
{
    const double square_of_mean = in->weight * in->means[i] * in->means[i];
    if (feature_is_constant(in->diagonal[i], square_of_mean, in->rounding)) {
        return 0.0;
    }
    return (in->diagonal[i] - square_of_mean) / in->weight;
}

/* The metrics of attention are squared. */
static double of_kind(const site_view *v, double value)
{
    return v->site->kind == SITE_HEADS ? value * value : value;
}

/* IFV */
static double fluctuation_value(const site_view *v, int64_t i, double sum, int64_t rows)
{
    (void)sum;
    (void)rows;
    return of_kind(v, fluctuation(&v->inputs[0], i));
}

/* WIFV: the squares of the column's weights beside it */
static double weighted_fluctuation(const site_view *v, int64_t i, double sum, int64_t rows)
{
    (void)rows;
    return of_kind(v, fluctuation(&v->inputs[0], i) * sum);
}

/* WIFN: the mean of the column's magnitudes times the feature's norm */
static double weighted_norm(const site_view *v, int64_t i, double sum, int64_t rows)
{
    return of_kind(v, sum / (double)rows * sqrt(v->inputs[0].diagonal[i]));
}

/* values <- (value - mean) / deviation */
static void standardise(int64_t count, double *values)
{
    double mean = 0.0;
    double square = 0.0;
    for (int64_t i = 0; i < count; i++) {
        mean += values[i] / (double)count;
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] -= mean;
        square += values[i] * values[i];
    }
    const double deviation = count > 1 ? sqrt(square / (double)(count - 1)) : 0.0;
    for (int64_t i = 0; i < count; i++) {
        values[i] = deviation > 0.0 ? values[i] / deviation : 0.0;
    }
}

grail_status flap_standardised_scores(const site_view *v, double *scores)
{
    double *values = NULL;
    int64_t u = 0;
    int64_t rows = 0;
    CHECK(sums_of_columns(v, TERM_SQUARE, &values, &u, &rows));
    for (int64_t i = 0; i < v->site->units * u; i++) {
        values[i] = weighted_fluctuation(v, i, values[i], rows);
    }
    standardise(v->site->units * u, values);
    scores_of_features(v->site->units, u, values, scores);
    for (int64_t j = 0; j < v->site->units; j++) {
        scores[j] /= (double)u;
    }
    memory_free(values);
    return GRAIL_OK;
}

static grail_status score_weighted_fluctuation(const site_view *v, double *scores)
{
    return scores_of_columns(v, TERM_SQUARE, weighted_fluctuation, scores);
}

static grail_status score_fluctuation(const site_view *v, double *scores)
{
    return scores_of_columns(v, TERM_SQUARE, fluctuation_value, scores);
}

static grail_status score_weighted_norm(const site_view *v, double *scores)
{
    return scores_of_columns(v, TERM_MAGNITUDE, weighted_norm, scores);
}

/* b' = b + W_R mu_R: the means of what the removed features gave. */
static const compensation bias_of_means = {
    .enabled = true,
    .target = TARGET_LOCAL,
    .bias = BIAS_ON,
    .fit = FIT_BIAS_ONLY,
    .ridge = RIDGE_PRIOR,
    .alpha = {GRAIL_NUMBER_GIVEN, 1e-3}, /* unused: no weight is fitted */
};

const selector selector_flap = {
    .name = "flap",
    .summary = "keeps units by the fluctuation of their activations times the squared weights "
               "behind",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &bias_of_means,
    .always_needs = NEEDS_DIAGONAL | NEEDS_MEANS,
    .score = score_weighted_fluctuation,
};

const selector selector_flap_ifv = {
    .name = "flap-ifv",
    .summary = "keeps units by the fluctuation of their activations",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &bias_of_means,
    .always_needs = NEEDS_DIAGONAL | NEEDS_MEANS,
    .score = score_fluctuation,
};

const selector selector_flap_wifn = {
    .name = "flap-wifn",
    .summary = "keeps units by the weights behind times the norms of their activations, as FLAP "
               "adds them up",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &bias_of_means,
    .always_needs = NEEDS_DIAGONAL,
    .score = score_weighted_norm,
};
