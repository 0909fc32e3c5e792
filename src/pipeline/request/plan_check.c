#include "pipeline/request/plan_check.h"

#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/cuts.h"
#include "pipeline/request/dropped.h"

/* Refuses the bias mode on if a consumer has no parameter that can store a bias. */
static grail_status check_bias(const graph *g, const site *s, const compensation *how)
{
    for (int k = 0; k < s->consumer_count; k++) {
        if (how->enabled && how->bias == BIAS_ON &&
            consumer_bias_slot(g, s->consumers[k].node).parameter == GRAPH_NONE) {
            const bool only_bias = how->fit == FIT_BIAS_ONLY;
            const grail_status status = error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "site '%s': no parameter of the checkpoint can take a fitted bias, and stock "
                "loaders would not read a new one; use %s",
                s->name,
                only_bias ? "the compensation none, grail or full, since this one fits nothing but "
                            "a bias"
                          : "the bias mode auto or off");
            return error_about(status, only_bias ? "fit.compensate" : "fit.bias");
        }
    }
    return GRAIL_OK;
}

/* The error names the selectors that have a rule for the site. */
static grail_status check_kind(const site *s, const selector *rule)
{
    int named = 0;
    if (selector_decides(rule, s->kind)) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "site '%s': selector '%s' has no rule for sites of kind %s; these selectors have one:",
        s->name, rule->name, site_kind_name(s->kind));
    for (int i = 0; selector_at(i) != NULL; i++) {
        if (selector_decides(selector_at(i), s->kind)) {
            error_append("%s %s", named++ == 0 ? "" : ",", selector_at(i)->name);
        }
    }
    return status;
}

/* Gradients are those of one block, on the network as narrowed so far. */
static grail_status check_gradients(const graph *g, const site *s, int index, const plan *p)
{
    const selector *rule = p->sites[index].selector;
    if ((site_decision_needs(p, index, s) & NEEDS_GRADIENTS) == 0) {
        return GRAIL_OK;
    }
    if (p->sites[index].normed) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': selector '%s' needs the gradients of the network as narrowed "
                         "so far, but a norm runs over this width, so its units are chosen before; "
                         "choose another selector for it",
                         s->name, rule->name);
    }
    if (plan_selects_openly(p)) {
        const bool loop = p->loop == LOOP_OPEN;
        const grail_status status =
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "site '%s': selector '%s' needs the gradients of the network as narrowed so "
                      "far, which %s; use a closed %s",
                      s->name, rule->name,
                      loop ? "an open loop does not run" : "an open selection does not look at",
                      loop ? "loop" : "selection");
        return error_about(status, loop ? "fit.open_loop" : "cut.select");
    }
    if (s->is_part) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': selector '%s' needs the gradients of whole matrices, but this "
                         "site is a part of what some read or make; choose another selector for it",
                         s->name, rule->name);
    }
    if (s->block == GRAPH_NONE || s->block == g->block_count || site_spans_blocks(g, s)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': selector '%s' needs the gradients of a block, but this site "
                         "does not lie within one; choose another selector for it",
                         s->name, rule->name);
    }
    return GRAIL_OK;
}

/* Norms of what a producer reads: in the network as narrowed so far only the first producer of a
 * residual stream has run when the stream is decided. What the later ones read depends on inner
 * cuts, and those behind the first block on the stream's own. */
static grail_status check_stream_norms(const graph *g, const site *s, int index, const plan *p)
{
    const bool of_all = p->stream_score == STREAM_SCORE_ALL;
    const bool of_branch = p->stream_score == STREAM_SCORE_BRANCH && site_branch_producer(g, s) > 0;
    if (s->kind != SITE_STREAM || (site_decision_needs(p, index, s) & NEEDS_INPUT_NORMS) == 0 ||
        (!of_all && (!of_branch || plan_selects_openly(p)))) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "site '%s': selector '%s' needs activations, but it must score the units before the later "
        "producers have run; use the stream score 'first'%s",
        s->name, p->sites[index].selector->name,
        of_all ? "" : ", or an open selection, which looks at the dense network");
    return error_about(status, of_all ? "cut.stream_score" : "cut.stream_score cut.select");
}

/* Which experts stay is decided by what each makes in the network as narrowed so far. */
static grail_status check_experts(const site *s, const plan *p)
{
    if (s->kind != SITE_EXPERTS || !plan_selects_openly(p)) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "site '%s': which experts stay is decided by the network as narrowed so far; use a "
        "closed loop and a closed selection",
        s->name);
    return error_about(status, p->loop == LOOP_OPEN ? "fit.open_loop" : "cut.select");
}

/* The dense network does not show what a norm makes of the units that are left. */
static grail_status check_norm(const site *s, const plan *p)
{
    return !s->normed || p->loop == LOOP_CLOSED
               ? GRAIL_OK
               : error_about(
                     error_set(GRAIL_ERROR_UNSUPPORTED,
                               "site '%s': a norm runs over this width, so what is left of it "
                               "changes when units go, which an open loop does not observe; use a "
                               "closed loop, or leave this site as it is",
                               s->name),
                     "fit.open_loop");
}

/* Heads and the channels of their values lie along one axis of the same matrices. */
static grail_status check_values(const site_list *sites, const site *s, const plan *p)
{
    for (int i = 0; s->kind == SITE_VALUES && i < sites->count; i++) {
        const site *other = &sites->sites[i];
        if (other != s && site_is_cut(p, i) && other->consumer_count > 0 &&
            other->consumers[0].node == s->consumers[0].node) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "site '%s': channels of values cannot be cut in one run with the heads "
                "that they belong to (site '%s'); cut the heads, and then the values "
                "of the result",
                s->name, other->name);
        }
    }
    return GRAIL_OK;
}

/* Channels of a convolution in groups go by whole groups, or some of each group. */
static grail_status check_groups(const site_list *sites, const site *s, const plan *p)
{
    return s->whole == NULL || !site_is_cut(p, (int)(s->whole - sites->sites))
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "site '%s': these channels cannot be cut in one run with the whole "
                           "groups that they belong to (site '%s'); cut the groups, and then the "
                           "channels of the result",
                           s->name, s->whole->name);
}

static grail_status check_site(const graph *g, const site *s, int index, const plan *p)
{
    const selector *rule = p->sites[index].selector;
    CHECK(check_experts(s, p));
    CHECK(check_norm(s, p));
    if (s->groups > 1 && s->normed) {
        return error_about(
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "site '%s': a norm runs over all heads, so they are cut with their keys; cut "
                      "complete KV groups",
                      s->name),
            "cut.gqa");
    }
    if (s->groups > 1 && rule->folds && s->kind != SITE_HEADS) {
        return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "site '%s': channels of %s cannot be folded, since each %s "
                                     "keeps its own; choose a selector that keeps units",
                                     s->name,
                                     s->kind == SITE_VALUES ? "values" : "a convolution in groups",
                                     s->kind == SITE_VALUES ? "head" : "group"),
                           "cut.selector");
    }
    if (s->groups > 1 && rule->folds) {
        return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "site '%s': folding needs complete KV groups; cut those",
                                     s->name),
                           "cut.gqa");
    }
    if (s->kind == SITE_HEADS && rule->folds && p->loop == LOOP_OPEN) {
        return error_about(
            error_set(GRAIL_ERROR_UNSUPPORTED,
                      "site '%s': an open loop cannot fold heads, because the output "
                      "of folded heads must be observed; use a closed loop",
                      s->name),
            "fit.open_loop");
    }
    grail_status status = check_stream_norms(g, s, index, p);
    status = status == GRAIL_OK ? check_gradients(g, s, index, p) : status;
    return status == GRAIL_OK ? check_bias(g, s, &p->compensation) : status;
}

/* A refit aims at the dense network's own output, beside the compressed one. */
static grail_status check_refit(const plan *p)
{
    const compensation *how = &p->compensation;
    if (how->enabled && how->refit == REFIT_ALL &&
        (!compensation_uses_dense(how) || p->loop == LOOP_OPEN)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "refit 'all' fits maps to the dense network's output, so it needs the "
                         "target 'dense' or 'mixed' in a closed loop; found target '%s' in %s loop",
                         target_name(how->target), p->loop == LOOP_OPEN ? "an open" : "a closed");
    }
    return GRAIL_OK;
}

/* The training masks the units that the plan's selectors remove, by their gradients. */
static grail_status check_training(const site *s, const selector *rule, const compensation *how)
{
    if (how->regional_training && how->enabled) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "regional training leaves the weights as it has trained them, so they "
                         "cannot be fitted too; set \"enabled\" or \"regional_training\" to false");
    }
    if (how->regional_training && (selector_needs(rule, s) & NEEDS_GRADIENTS) == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "site '%s': regional training goes with a selector that scores units by "
                         "regional gradients, wanda++, but this site has '%s'",
                         s->name, rule->name);
    }
    return GRAIL_OK;
}

/* A metric that no decision looks at would have no effect. */
static grail_status check_metric(const site_list *sites, const plan *p)
{
    bool looks = p->metric != METRIC_FISHER || !anything_is_cut(p);
    for (int i = 0; i < p->count; i++) {
        looks = looks || (site_is_cut(p, i) && site_has_metric(p, i, &sites->sites[i]));
    }
    return looks ? GRAIL_OK
                 : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                         "the metric 'fisher' has no effect on these cuts: "
                                         "residual streams and whole experts are chosen without, "
                                         "and other sites need the selector obs, ziplm or slimgpt"),
                               "cut.metric");
}

grail_status plan_check(const grail_model *model, const site_list *sites, const plan *p)
{
    CHECK(check_refit(p));
    CHECK(check_metric(sites, p));
    CHECK(dropped_check(model, sites, p));
    for (int i = 0; i < sites->count; i++) {
        if (site_is_cut(p, i)) {
            CHECK(check_kind(&sites->sites[i], p->sites[i].selector));
            CHECK(check_training(&sites->sites[i], p->sites[i].selector, &p->compensation));
            CHECK(check_values(sites, &sites->sites[i], p));
            CHECK(check_groups(sites, &sites->sites[i], p));
            CHECK(check_site(model->graph, &sites->sites[i], i, p));
        }
    }
    return GRAIL_OK;
}
