/* slimgpt: units are removed in batches by a score on the Cholesky factor of the inverse's blocks
 * (Ling et al., arXiv 2412.18110); heads one by one. `slimgpt-paper` is what the code published
 * with the GRAIL paper does under this name: all units are scored once. */
#include "base/memory.h"
#include "reduce/removal.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

static const double damping = 1e-2;

static grail_status decide_in_batches(const site_view *v, grail_reducer **out)
{
    const removal_options options = {.kind = VALUE_CHOLESKY, .damping = damping};
    return removal_decide(v, &options, v->site->kind == SITE_HEADS ? batch_of_one : batch_shrinking,
                          out);
}

/* Heads by the exact cost, others by |W_:j|^2 / (Hi_jj + 1e-6). */
static grail_status score_once(const site_view *v, double *scores)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    const removal_options options = {
        .kind = VALUE_EXACT,
        .damping = damping,
        .jitter = v->site->kind == SITE_HEADS ? 0.0 : 1e-6,
    };
    TRY(removal_of_costs(v, &options, &r));
    TRY(removal_values(&r, scores));
out:
    removal_fini(&r);
    return status;
}

const selector selector_slimgpt = {
    .name = "slimgpt",
    .summary = "removes batches of units by scores on the factor of the inverse Gram matrix",
    .uses_data = true,
    .own = &removal_update,
    .needs = selector_needs_gram,
    .decide = decide_in_batches,
};

const selector selector_slimgpt_paper = {
    .name = "slimgpt-paper",
    .summary = "scores all units once, as the code published with the GRAIL paper does",
    .uses_data = true,
    .needs = selector_needs_gram,
    .score = score_once,
};
