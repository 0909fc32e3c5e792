#include "study/page/decision.h"

#include "study/page/quality.h"

#include <grail/compress.h>

#include <math.h>
#include <string.h>

/* Rounding of a mean must not turn a loss of 1 point into more. */
static const double slack = 1e-9;

const double *decision_limits(quality_kind kind)
{
    static const double points[DECISION_LIMITS] = {1.0, 2.0, 5.0};
    static const double percent[DECISION_LIMITS] = {1.0, 5.0, 10.0};
    return kind == QUALITY_ACCURACY ? points : percent;
}

double decision_cut(const cell_group *g)
{
    return isnan(g->removed.mean) ? g->key.sparsity : g->removed.mean;
}

/* Groups are in the order of selectors and variants, the simplest first, so a later one must be
 * better. */
static bool loses_less(const cell_group *g, const cell_group *other)
{
    return g->lost.value < other->lost.value - slack;
}

static bool is_larger(const cell_group *g, const cell_group *other)
{
    const long long cut = llround(1000.0 * decision_cut(g));
    const long long best = llround(1000.0 * decision_cut(other));
    if (cut == best && fabs(g->lost.value - other->lost.value) <= slack) {
        return g->key.variant < other->key.variant;
    }
    return cut != best ? cut > best : loses_less(g, other);
}

static bool is_cut(const cell_group *g)
{
    return estimate_is_known(&g->lost) && decision_cut(g) > 0.0;
}

bool decision_is_alike(const section *s, const cell_group *g, const cell_group *best)
{
    const bool same_size = fabs(decision_cut(g) - decision_cut(best)) < 0.0005;
    return same_size && estimate_is_known(&g->quality) && !quality_is_better(s->kind, g, best);
}

/* What grail compress does without options for selector, repair, loop and healing. */
static bool is_default(const aggregate *a, const cell_group *g)
{
    grail_compress_options usual;
    grail_compress_options_init(&usual);
    const char *selector = a->results->selectors[g->key.selector];
    return strcmp(selector, usual.cut.selector) == 0 && !g->key.open_loop &&
           strcmp(variant_compensation(g->key.variant), usual.fit.compensate) == 0 &&
           !variant_repairs(g->key.variant) && variant_heal(g->key.variant) == HEAL_NONE;
}

/* The best of equal size is a little lucky, so the default stands for it where intervals do not
 * tell them apart. */
static const cell_group *prefer_default(const aggregate *a, const section *s, double limit,
                                        const cell_group *best)
{
    const cell_group *chosen = best;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        if (is_default(a, g) && g->lost.value <= limit + slack && decision_is_alike(s, best, g) &&
            estimate_has_interval(&g->quality) && (chosen == best || loses_less(g, chosen))) {
            chosen = g;
        }
    }
    return chosen;
}

const cell_group *decision_largest(const aggregate *a, const section *s, double limit)
{
    const cell_group *best = NULL;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        if (is_cut(g) && g->lost.value <= limit + slack && (best == NULL || is_larger(g, best))) {
            best = g;
        }
    }
    return best == NULL ? NULL : prefer_default(a, s, limit, best);
}

const cell_group *decision_least_loss(const section *s)
{
    const cell_group *best = NULL;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        if (is_cut(g) && (best == NULL || loses_less(g, best))) {
            best = g;
        }
    }
    return best;
}
