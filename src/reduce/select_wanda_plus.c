/* wanda++: weights times the norms of the activations that they read, plus their regional gradients
 * (Yang et al., Wanda++, arXiv 2503.04992; docs/numerics.md, Scores). */
#include "reduce/plan.h"
#include "reduce/scores.h"
#include "reduce/wanda_plus.h"

#include <math.h>

/* What a gradient counts beside a norm, alpha; the authors' value. */
static const double gradient_share = 100.0;

static unsigned needs(const site *s)
{
    (void)s;
    return NEEDS_DIAGONAL | NEEDS_GRADIENTS;
}

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

/* The authors speak of the blocks of language models alone. */
enum { NOT_FOR_CHANNELS = 1 << SITE_CONV | 1 << SITE_STREAM | 1 << SITE_LATENT };

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
    .excluded_kinds = NOT_FOR_CHANNELS,
    .own = &trained_regions,
    .needs = needs,
    .score = wanda_plus_scores,
};
