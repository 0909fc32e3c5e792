/* reap: experts by what they add to the sum for the rows that the router gives them
 * (docs/numerics.md, Scores). */
#include "reduce/selector.h"

/* mean over the rows t of expert e of f_te ||y_te||; below all where there is no row */
static grail_status score(const site_view *v, double *scores)
{
    for (int64_t e = 0; e < v->site->units; e++) {
        const routed_sum *s = &v->routed[e];
        scores[e] = s->rows > 0 ? s->norms / (double)s->rows : -1.0;
    }
    return GRAIL_OK;
}

const selector selector_reap = {
    .name = "reap",
    .summary = "keeps experts by the mean of their share times the norm of what they make",
    .uses_data = true,
    .excluded_kinds = ~(1U << SITE_EXPERTS),
    .decides_experts = true,
    .always_needs = NEEDS_ROUTED,
    .score = score,
};
