#include "reduce/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_channels(const site *s)
{
    return s->kind == SITE_CONV || s->kind == SITE_STREAM;
}

/* Whether any number of units is as good as another one for products. */
static bool has_whole_units(const site *s)
{
    return s->kind == SITE_HEADS || s->kind == SITE_EXPERTS || s->kind == SITE_VALUES;
}

grail_status budget_kept_units(const site *s, double sparsity, int64_t *out)
{
    CHECK(option_check_sparsity(sparsity));
    if (is_channels(s)) {
        const int64_t kept = (int64_t)floor((double)s->units * (1.0 - sparsity) + 1e-9);
        *out = kept < 1 ? 1 : kept;
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

/* Whether rounding moves a width by at most one of `parts` parts of the site, and leaves it cut
 * where it is channels. Any width is moved by half a step at most. */
static bool moves_little(const site *s, int64_t wanted, int64_t step, int64_t parts)
{
    const int64_t width = nearest_multiple(wanted, step, s->units);
    const int64_t moved = wanted == ANY_WIDTH ? step / 2 : llabs(width - wanted);
    return moved * parts <= s->units &&
           (wanted == ANY_WIDTH || !is_channels(s) || width < s->units);
}

int64_t aligned_step(const site *s, int64_t align, int64_t wanted)
{
    const bool channels = is_channels(s); /* of which stages have few */
    const int64_t smallest = channels ? 8 : 32;
    const int64_t parts = channels ? 16 : 20;
    int64_t step = channels ? 32 : 256;
    if (align != ALIGN_AUTO) {
        return align;
    }
    if (!channels && s->units < 2 * smallest) {
        return 1;
    }
    while (step >= smallest && !moves_little(s, wanted, step, parts)) {
        step /= 2;
    }
    return step >= smallest ? step : channels ? 1 : smallest;
}

static int64_t aligned_width(const site *s, int64_t align, int64_t wanted)
{
    return nearest_multiple(wanted, aligned_step(s, align, wanted), s->units);
}

/* Parameters that the sites of `kind` should lose, and do lose with their present widths. */
static double lost_parameters(const graph *g, const site_list *sites, const plan *p, site_kind kind,
                              double sparsity, bool planned)
{
    double total = 0.0;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        if (s->kind == kind) {
            const double units =
                planned ? (double)(s->units - p->sites[i].kept) : sparsity * (double)s->units;
            total += units * (double)site_parameters_per_unit(g, s);
        }
    }
    return total;
}

/* Heads, experts and values, and channels and latents, which are rounded site by site: no other
 * site makes up for the difference. */
static grail_status apply_other_kinds(const budget *b, const site_list *sites, plan *p)
{
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        const double sparsity = b->sparsity[s->kind];
        const bool is_rounded = is_channels(s) || s->kind == SITE_LATENT;
        if (has_whole_units(s) || (is_rounded && sparsity != 0.0)) {
            CHECK(budget_kept_units(s, sparsity, &p->sites[i].kept));
        }
        if (is_rounded && sparsity != 0.0) {
            p->sites[i].kept = aligned_width(s, b->align, p->sites[i].kept);
        }
    }
    return GRAIL_OK;
}

static grail_status check_once(const budget *b, int k)
{
    for (int i = 0; i < k; i++) {
        if (strcmp(b->overrides[i].site, b->overrides[k].site) == 0) {
            return error_set(GRAIL_ERROR_ARGUMENT, "site '%s' has two sparsities; give only one",
                             b->overrides[k].site);
        }
    }
    return GRAIL_OK;
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
        CHECK(check_once(b, k));
        CHECK(budget_kept_units(s, own->sparsity, &p->sites[i].kept));
        if (!has_whole_units(s) && own->sparsity > 0.0) {
            p->sites[i].kept = aligned_width(s, b->align, p->sites[i].kept);
        }
    }
    return GRAIL_OK;
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
    return status;
}

grail_status budget_apply(const budget *b, const graph *g, const site_list *sites, plan *p)
{
    if (b->align < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "alignment %lld is negative; give 1 or more, or 0 for an automatic choice",
                         (long long)b->align);
    }
    CHECK(check_kinds(b, sites));
    CHECK(apply_other_kinds(b, sites, p));
    const double asked = b->sparsity[SITE_FFN];
    const double missing =
        lost_parameters(g, sites, p, SITE_HEADS, b->sparsity[SITE_HEADS], false) -
        lost_parameters(g, sites, p, SITE_HEADS, 0.0, true);
    const double ffn = lost_parameters(g, sites, p, SITE_FFN, 1.0, false);
    const double corrected = ffn > 0.0 ? asked + missing / ffn : asked;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        if (s->kind != SITE_FFN) {
            continue;
        }
        CHECK(budget_kept_units(s, asked, &p->sites[i].kept));
        if (asked > 0.0 && b->align != 1) {
            const bool usable = corrected >= 0.0 && corrected < 1.0;
            const double wanted = (double)s->units * (1.0 - (usable ? corrected : asked));
            p->sites[i].kept = aligned_width(s, b->align, (int64_t)llround(wanted));
        }
    }
    return apply_overrides(b, sites, p);
}
