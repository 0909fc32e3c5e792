/* flap, flap-ifv, flap-wifn: the scores of FLAP (An et al., arXiv 2312.11983), from the fluctuation
 * of the consumer's input around its mean (docs/numerics.md, Scores). */
#include "reduce/flap.h"
#include "reduce/plan.h"
#include "reduce/scores.h"
#include "reduce/selector.h"
#include "stats/constant_features.h"

#include <math.h>

typedef enum flap_metric {
    WEIGHTED_FLUCTUATION, /* WIFV */
    FLUCTUATION,          /* IFV */
    WEIGHTED_NORM         /* WIFN */
} flap_metric;

static unsigned needs_means(const site *s)
{
    (void)s;
    return NEEDS_DIAGONAL | NEEDS_MEANS;
}

static unsigned needs_diagonal(const site *s)
{
    (void)s;
    return NEEDS_DIAGONAL;
}

/* The unbiased variance of a feature, (G_jj - T mu_j^2) / (T - 1); 0 for a single row. */
static double fluctuation(const input_statistics *in, int64_t i)
{
    const double count = in->weight;
    const double square_of_mean = count * in->means[i] * in->means[i];
    if (count <= 1.0 || feature_is_constant(in->diagonal[i], square_of_mean, in->rounding)) {
        return 0.0;
    }
    return (in->diagonal[i] - square_of_mean) / (count - 1.0);
}

/* `weights` is the sum over the feature's column of W^2, or of |W| for a norm; `rows` is O. */
static double metric_of(flap_metric metric, const input_statistics *in, int64_t i, double weights,
                        int64_t rows)
{
    switch (metric) {
    case FLUCTUATION:
        return fluctuation(in, i);
    case WEIGHTED_NORM:
        return weights / (double)rows * sqrt(in->diagonal[i]);
    case WEIGHTED_FLUCTUATION:
        break;
    }
    return fluctuation(in, i) * weights;
}

/* *out[n u], owned: the metrics of the features. Those of attention are squared. */
static grail_status measure_features(const site_view *v, flap_metric metric, double **out,
                                     int64_t *features)
{
    int64_t rows = 0;
    CHECK(sums_of_columns(v, metric == WEIGHTED_NORM ? TERM_MAGNITUDE : TERM_SQUARE, out, features,
                          &rows));
    double *values = *out;
    for (int64_t i = 0; i < v->site->units * *features; i++) {
        const double value = metric_of(metric, &v->inputs[0], i, values[i], rows);
        values[i] = v->site->kind == SITE_HEADS ? value * value : value;
    }
    return GRAIL_OK;
}

static grail_status score(const site_view *v, flap_metric metric, double *scores)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    int64_t u = 0;
    TRY(measure_features(v, metric, &values, &u));
    scores_of_features(v->site->units, u, values, scores);
out:
    memory_free(values);
    return status;
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
    grail_status status = GRAIL_OK;
    double *values = NULL;
    int64_t u = 0;
    TRY(measure_features(v, WEIGHTED_FLUCTUATION, &values, &u));
    standardise(v->site->units * u, values);
    scores_of_features(v->site->units, u, values, scores);
    for (int64_t j = 0; j < v->site->units; j++) {
        scores[j] /= (double)u;
    }
out:
    memory_free(values);
    return status;
}

static grail_status score_weighted_fluctuation(const site_view *v, double *scores)
{
    return score(v, WEIGHTED_FLUCTUATION, scores);
}

static grail_status score_fluctuation(const site_view *v, double *scores)
{
    return score(v, FLUCTUATION, scores);
}

static grail_status score_weighted_norm(const site_view *v, double *scores)
{
    return score(v, WEIGHTED_NORM, scores);
}

/* FLAP says nothing of convolutions. */
enum { NOT_FOR_CHANNELS = 1 << SITE_CONV | 1 << SITE_STREAM };

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
    .needs = needs_means,
    .score = score_weighted_fluctuation,
};

const selector selector_flap_ifv = {
    .name = "flap-ifv",
    .summary = "keeps units by the fluctuation of their activations",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &bias_of_means,
    .needs = needs_means,
    .score = score_fluctuation,
};

const selector selector_flap_wifn = {
    .name = "flap-wifn",
    .summary = "keeps units by the weights behind times the norms of their activations, as FLAP "
               "adds them up",
    .uses_data = true,
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &bias_of_means,
    .needs = needs_diagonal,
    .score = score_weighted_norm,
};
