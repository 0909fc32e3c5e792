/* Budgets: from a removed fraction to kept widths, with alignment. */
#ifndef GRAIL_REDUCE_BUDGET_H
#define GRAIL_REDUCE_BUDGET_H

#include "graph/site.h"
#include "reduce/alignment.h"
#include "reduce/plan.h"

#include <grail/compress.h>

typedef struct budget {
    const grail_site_sparsity *overrides; /* of single sites, borrowed; may be NULL */
    int override_count;
    double sparsity[SITE_KINDS]; /* removed fraction by site_kind; 0 leaves the kind alone */
    alignment align;
} budget;

/** K = n - floor(r n + 1e-9) for neurons, heads, experts, latents and values, max(1, floor(n (1 -
 * r) + 1e-9)) for channels, as the paper's language and vision codes count; a multiple of the
 * site's groups, at least `groups`. GRAIL_ERROR_ARGUMENT when r is outside [0, 1) or the site would
 * lose every unit.
 */
grail_status budget_kept_units(const site *s, double sparsity, int64_t *out) GRAIL_MUST_CHECK;

/** What the kept units of a site of neurons or channels become a multiple of when `wanted` are to
 * be kept, or whatever is to be kept for ANY_WIDTH; the least that it may be for FINEST_WIDTH.
 * `auto` takes the largest of 128, 64, 32, 16, 8 (channels: 32, 16, 8) whose rounding moves the
 * width by at most 1/20 of the site (channels: 1/16), leaves the site cut, and changes the number
 * of neurons that go by at most a tenth; else the least: the block, if it is 256 or 32 and the site
 * has two of them or more, or 8, or 1 in sites of fewer than 32 units. */
int64_t aligned_step(const site *s, alignment align, int64_t wanted);

/** Sets p->sites[].kept, of each site by itself: what one kind cannot lose, no other one loses.
 * Heads, experts and values get the nearest count, of two the larger one, and at least one unit of
 * each group; the others the nearest multiple; with the step 1 all get budget_kept_units. A
 * site with a measure follows it. Each override applies to its own site only, but for a multiple of
 * a measure, of which the nearest one is taken; an unknown site is GRAIL_ERROR_ARGUMENT. */
grail_status budget_apply(const budget *b, const site_list *sites, plan *p) GRAIL_MUST_CHECK;

#endif
