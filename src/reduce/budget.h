/* Budgets: from a removed fraction to kept widths, with alignment. */
#ifndef GRAIL_REDUCE_BUDGET_H
#define GRAIL_REDUCE_BUDGET_H

#include "graph/site.h"
#include "reduce/plan.h"

#include <grail/compress.h>

enum { ALIGN_AUTO = 0, ANY_WIDTH = -1 };

typedef struct budget {
    const grail_site_sparsity *overrides; /* of single sites, borrowed; may be NULL */
    int override_count;
    double sparsity[SITE_KINDS]; /* removed fraction by site_kind; 0 leaves the kind alone */
    int64_t align; /* widths become multiples of it; ALIGN_AUTO: ffn sites 256 down to 32, channels
                      32 down to 8 where that changes little */
} budget;

/** K = n - floor(r n + 1e-9) for neurons, heads, experts, latents and values, max(1, floor(n (1 -
 * r) + 1e-9)) for channels, as the paper's language and vision codes count; a multiple of the
 * site's groups, at least `groups`. GRAIL_ERROR_ARGUMENT when r is outside [0, 1) or the site would
 * lose every unit.
 */
grail_status budget_kept_units(const site *s, double sparsity, int64_t *out) GRAIL_MUST_CHECK;

/** What the kept units of a site of neurons or channels become a multiple of when `wanted` are to
 * be kept, or whatever is to be kept for ANY_WIDTH. `auto` takes the largest of 256, 128, 64, 32
 * whose rounding moves the width by at most 5 % of the site, else 32; sites narrower than 64 are
 * not aligned. Of channels it takes the largest of 32, 16, 8 whose rounding moves the width by at
 * most a sixteenth of the site and leaves it cut, else 1. */
int64_t aligned_step(const site *s, int64_t align, int64_t wanted);

/** Sets p->sites[].kept. Heads are cut in units; the ffn width then makes up for the rounding of
 * the heads and is rounded to the alignment. Each override applies to its own site only; an unknown
 * site is GRAIL_ERROR_ARGUMENT. */
grail_status budget_apply(const budget *b, const graph *g, const site_list *sites,
                          plan *p) GRAIL_MUST_CHECK;

#endif
