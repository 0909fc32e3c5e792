/* leverage: units by the ridge leverage of their features, the diagonal of G (G + lambda I)^-1
 * (Lin et al., arXiv 2408.09632). */
#include "base/memory.h"
#include "reduce/removal.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

/* scores[n] += sum over a unit's features of 1 - lambda [(G + lambda I)^-1]_jj, which is the
 * leverage; G becomes the inverse. */
static grail_status add_leverage(const site_view *v, input_statistics *in, double *scores)
{
    static const double damping = 1e-2;
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    double lambda = 0.0;
    const int64_t u = in->width / v->site->units;
    TRY(damped_inverse(damping, in->gram, &lambda));
    TRY(memory_new_unset(&diagonal, (size_t)in->width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(in->gram, diagonal));
    for (int64_t j = 0; j < in->width; j++) {
        scores[j / u] += 1.0 - lambda * diagonal[j];
    }
out:
    memory_free(diagonal);
    return status;
}

static grail_status score(const site_view *v, double *scores)
{
    for (int k = 0; k < v->input_count; k++) {
        CHECK(add_leverage(v, &v->inputs[k], scores));
    }
    return GRAIL_OK;
}

const selector selector_leverage = {
    .name = "leverage",
    .summary = "keeps units by the ridge leverage of their activations",
    .uses_data = true,
    .needs = selector_needs_gram,
    .score = score,
};
