/* Units are removed or kept one after another, by what that costs or gains once the others are
 * refitted (docs/numerics.md, Elimination).
 *
 * obs: removed one by one; the weights are first refitted on all units, to the target of the fit
 * that follows.
 *
 * ziplm: removed one by one, from the dense weights (Kurtic et al., arXiv 2302.04089).
 *
 * slimgpt: removed in batches by a score on the Cholesky factor of the inverse's blocks (Ling et
 * al., arXiv 2412.18110); heads one by one. `slimgpt-paper` is what the code published with the
 * GRAIL paper does under this name: all units are scored once.
 *
 * gram-css: kept one by one, each time the one that explains most of the consumers' outputs that
 * the kept ones do not explain yet: greedy column subset selection, which minimises the residual of
 * a fit without ridge step by step. */
#include "reduce/removal.h"
#include "reduce/selector.h"

#define DAMPING 1e-2

static unsigned needs_of_obs(const site *s)
{
    return site_kind_is_shared(s->kind) ? NEEDS_GRAM | NEEDS_MEANS | NEEDS_ALL_CONSUMERS
                                        : NEEDS_GRAM | NEEDS_MEANS | NEEDS_TARGET;
}

static const removal_options refitted = {.kind = VALUE_EXACT, .damping = DAMPING, .refits = true};

static grail_status decide_refitted(const site_view *v, grail_reducer **out)
{
    return removal_decide(v, &refitted, batch_of_one, out);
}

static grail_status losses(const site_view *v, double *out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_init(v, &refitted, &r));
    TRY(removal_losses(&r, v->site->groups, out));
out:
    removal_fini(&r);
    return status;
}

const selector selector_obs = {
    .name = "obs",
    .summary = "removes unit after unit by what its removal costs once the others are refitted",
    .uses_data = true,
    .takes_metric = true,
    .own = &removal_update,
    .needs = needs_of_obs,
    .decide = decide_refitted,
    .losses = losses,
};

static grail_status decide_from_dense(const site_view *v, grail_reducer **out)
{
    const removal_options options = {.kind = VALUE_EXACT, .damping = DAMPING};
    return removal_decide(v, &options, batch_of_one, out);
}

const selector selector_ziplm = {
    .name = "ziplm",
    .summary = "removes unit after unit by the cost of its removal from the dense weights",
    .uses_data = true,
    .takes_metric = true,
    .own = &removal_update,
    .needs = selector_needs_gram,
    .decide = decide_from_dense,
};

static grail_status decide_in_batches(const site_view *v, grail_reducer **out)
{
    const removal_options options = {.kind = VALUE_CHOLESKY, .damping = DAMPING};
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
        .damping = DAMPING,
        .jitter = v->site->kind == SITE_HEADS ? 0.0 : 1e-6,
    };
    TRY(removal_init(v, &options, &r));
    TRY(removal_values(&r, scores));
out:
    removal_fini(&r);
    return status;
}

const selector selector_slimgpt = {
    .name = "slimgpt",
    .summary = "removes batches of units by scores on the factor of the inverse Gram matrix",
    .uses_data = true,
    .takes_metric = true,
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

static grail_status decide_by_gains(const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_init(v, NULL, &r));
    TRY(removal_take(&r, v->site->groups, v->kept, true, batch_of_one, NULL));
    TRY(removal_reducer(&r, true, out));
out:
    removal_fini(&r);
    return status;
}

const selector selector_gram_css = {
    .name = "gram-css",
    .summary = "keeps unit after unit by how much of the output it explains",
    .uses_data = true,
    .needs = selector_needs_gram,
    .decide = decide_by_gains,
};
