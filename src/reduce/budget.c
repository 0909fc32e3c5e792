#include "reduce/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_channels(const site *s)
{
    return s->kind == SITE_CONV || s->kind == SITE_STREAM;
}

grail_status budget_kept_units(const site *s, double sparsity, int64_t *out)
{
    CHECK(option_check_sparsity(sparsity));
    if (is_channels(s)) { /* of each group */
        const int64_t in_group = s->units / s->groups;
        const int64_t kept = (int64_t)floor((double)in_group * (1.0 - sparsity) + 1e-9);
        *out = (kept < 1 ? 1 : kept) * s->groups;
        return GRAIL_OK;
    }
    /* 1e-9: r = 0.9 times 10 must be 9 whatever its binary value */
    const int64_t per_group = s->units / s->groups;
    const int64_t removed = (int64_t)floor(sparsity * (double)per_group + 1e-9);
    if (per_group - removed < 1) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "site '%s' would lose all of its %lld units at sparsity %g; use a lower sparsity",
            s->name, (long long)s->units, sparsity);
    }
    *out = (per_group - removed) * s->groups;
    return GRAIL_OK;
}

/* Nearest multiple of `align` to `wanted` within align .. units; units itself is always allowed. */
static int64_t nearest_multiple(int64_t wanted, int64_t align, int64_t units)
{
    int64_t rounded = (wanted + align / 2) / align * align;
    if (rounded < align) {
        rounded = align;
    }
    return rounded > units ? units : rounded;
}

/* Whether rounding to multiples of `step` moves a width by at most one of `parts` parts of the
 * site, leaves the site cut, and takes or leaves at most a tenth of the neurons that should go. Any
 * width is moved by half a step at most. */
static bool moves_little(const site *s, int64_t wanted, int64_t step)
{
    const bool few = is_channels(s) || s->kind == SITE_GROUPS; /* in stages */
    const int64_t parts = few ? 16 : 20;
    if (wanted == ANY_WIDTH) {
        return step / 2 * parts <= s->units;
    }
    const int64_t width = nearest_multiple(wanted, step, s->units);
    const int64_t moved = llabs(width - wanted);
    return moved * parts <= s->units && width < s->units &&
           (few || moved * 10 <= s->units - wanted);
}

static int64_t finest_step(const site *s, int64_t block)
{
    enum { USABLE = 32 };
    static const int64_t steps[] = {256, 32, 8}; /* blocks of K-quants, other blocks, products */
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const bool is_least = i + 1 == sizeof steps / sizeof steps[0];
        if ((is_least || steps[i] <= block) && s->units >= USABLE && s->units >= 2 * steps[i]) {
            return steps[i];
        }
    }
    return 1;
}

/* The smallest number of units from `step` on that is a multiple of it and of the groups; of whole
 * groups the smallest one that has a multiple of `step` channels. */
static int64_t grouped_step(const site *s, int64_t step)
{
    int64_t both = step;
    if (s->kind == SITE_GROUPS) {
        for (both = 1; both * s->consumers[0].features_per_unit % step != 0;) {
            both++;
        }
        return both;
    }
    while (both % s->groups != 0) {
        both += step;
    }
    return both;
}

/* Multiples of 8 as elsewhere, where they are widths of groups that move little; of whole groups,
 * which are large steps, no larger ones. */
static int64_t step_of_groups(const site *s, alignment align, int64_t wanted)
{
    const int64_t largest = s->kind == SITE_GROUPS ? 8 : 32;
    for (int64_t step = largest; align.step == ALIGN_AUTO && wanted != FINEST_WIDTH && step >= 8;
         step /= 2) {
        if (moves_little(s, wanted, grouped_step(s, step))) {
            return grouped_step(s, step);
        }
    }
    return align.step == ALIGN_AUTO ? s->groups : grouped_step(s, align.step);
}

int64_t aligned_step(const site *s, alignment align, int64_t wanted)
{
    enum { LEAST = 8 };
    const int64_t least = finest_step(s, align.block);
    int64_t step = is_channels(s) ? 32 : 128;
    if (s->groups > 1 || s->kind == SITE_GROUPS) { /* as many of each, or all of some */
        return step_of_groups(s, align, wanted);
    }
    if (align.step != ALIGN_AUTO) {
        return align.step;
    }
    if (wanted == FINEST_WIDTH || step < least) {
        return least;
    }
    while (step > least && !moves_little(s, wanted, step)) {
        step /= 2;
    }
    return step < LEAST ? 1 : step;
}

/* With 1 all is counted as published codes count. */
static grail_status kept_width(const budget *b, const site *s, double sparsity, int64_t *out)
{
    CHECK(budget_kept_units(s, sparsity, out));
    if (b->align.step == 1 || sparsity == 0.0) {
        return GRAIL_OK;
    }
    if (s->kind == SITE_HEADS || s->kind == SITE_EXPERTS || s->kind == SITE_VALUES) {
        /* The nearest count, of two the larger one; one stays in each group. */
        const int64_t per_group = s->units / s->groups;
        const int64_t removed = (int64_t)ceil(sparsity * (double)per_group - 0.5 - 1e-9);
        *out = (removed < per_group ? per_group - removed : 1) * s->groups;
        return GRAIL_OK;
    }
    const int64_t wanted = is_channels(s) && s->groups == 1
                               ? *out
                               : (int64_t)llround((double)s->units * (1.0 - sparsity));
    *out = nearest_multiple(wanted, aligned_step(s, b->align, wanted), s->units);
    return GRAIL_OK;
}

/* Whether a share that all sites lose leaves this one as it is: merged channels of a convolution in
 * groups would have to stand among those of their group. */
static bool stays_whole(const site *s, const plan_site *own)
{
    return is_channels(s) && s->groups > 1 && own->selector != NULL && own->selector->folds;
}

static grail_status apply_overrides(const budget *b, const site_list *sites, plan *p)
{
    for (int k = 0; k < b->override_count; k++) {
        const grail_site_sparsity *own = &b->overrides[k];
        const int i = site_list_find(sites, own->site);
        if (i < 0) {
            return error_set(
                GRAIL_ERROR_ARGUMENT,
                "'%s' is neither a site of this model nor a kind of site; grail inspect lists the "
                "sites",
                own->site);
        }
        const site *s = &sites->sites[i];
        for (int before = 0; before < k; before++) {
            if (strcmp(b->overrides[before].site, own->site) == 0) {
                return error_set(GRAIL_ERROR_ARGUMENT,
                                 "site '%s' has two sparsities; give only one", own->site);
            }
        }
        CHECK(kept_width(b, s, own->sparsity, &p->sites[i].kept));
    }
    return GRAIL_OK;
}

static bool has_override(const budget *b, const site *s)
{
    bool found = false;
    for (int k = 0; k < b->override_count && !found; k++) {
        found = strcmp(b->overrides[k].site, s->name) == 0;
    }
    return found;
}

/* The share of a kind does not reach channels of which whole groups go. */
static void leave_to_groups(const budget *b, const site_list *sites, plan *p)
{
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        const int whole = s->whole == NULL ? -1 : (int)(s->whole - sites->sites);
        if (whole >= 0 && p->sites[whole].kept < s->whole->units && !has_override(b, s)) {
            p->sites[i].kept = s->units;
        }
    }
}

/* One of several kinds may be missing, so that one request serves networks of many families. */
static grail_status check_kinds(const budget *b, const site_list *sites)
{
    bool asked = false;
    bool there[SITE_KINDS] = {false};
    for (int i = 0; i < sites->count; i++) {
        there[sites->sites[i].kind] = true;
    }
    for (int k = 0; k < SITE_KINDS; k++) {
        if (b->sparsity[k] != 0.0 && there[k]) {
            return GRAIL_OK;
        }
        asked = asked || b->sparsity[k] != 0.0;
    }
    if (!asked) {
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT, "the model has no site of the requested kinds");
    const char *comma = "; it has";
    for (int k = 0; k < SITE_KINDS; k++) {
        if (there[k]) {
            error_append("%s %s", comma, site_kind_name((site_kind)k));
            comma = ",";
        }
    }
    if (sites->count > 0) {
        error_append(": ask for one of these");
    }
    return status;
}

/* The nearest multiple of what the measure keeps that the site has, where it does not keep one. */
static void keep_multiples(const site_list *sites, plan *p)
{
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        const int64_t unit = s->measure == NULL ? 1 : p->sites[s->measure - sites->sites].kept;
        if (site_times(s) > 1 && p->sites[i].kept % unit != 0) {
            p->sites[i].kept = nearest_multiple(p->sites[i].kept, unit, s->units / unit * unit);
        }
    }
}

grail_status budget_apply(const budget *b, const site_list *sites, plan *p)
{
    if (b->align.step < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "alignment %lld is negative; give 1 or more, or 0 for an automatic choice",
                         (long long)b->align.step);
    }
    CHECK(check_kinds(b, sites));
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        if (s->measure != NULL) {
            p->sites[i].kept = site_times(s) * p->sites[s->measure - sites->sites].kept;
        } else {
            CHECK(kept_width(b, s, stays_whole(s, &p->sites[i]) ? 0.0 : b->sparsity[s->kind],
                             &p->sites[i].kept));
        }
    }
    CHECK(apply_overrides(b, sites, p));
    leave_to_groups(b, sites, p);
    keep_multiples(sites, p);
    return GRAIL_OK;
}
