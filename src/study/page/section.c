#include "study/page/section.h"

#include <math.h>
#include <stdlib.h>

int integer_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Ratios that differ by less than a millionth count as equal: 0.3 and 3 * 0.1. */
int ratio_compare(double a, double b)
{
    return integer_compare(llround(1e6 * a), llround(1e6 * b));
}

int group_key_compare(const group_key *a, const group_key *b)
{
    int order = integer_compare(a->section, b->section);
    order = order != 0 ? order : integer_compare(a->selector, b->selector);
    order = order != 0 ? order : integer_compare((int64_t)a->variant, (int64_t)b->variant);
    order = order != 0 ? order : integer_compare(a->open_loop, b->open_loop);
    order = order != 0 ? order : integer_compare(a->setting, b->setting);
    order = order != 0 ? order : integer_compare(a->samples, b->samples);
    return order != 0 ? order : ratio_compare(a->sparsity, b->sparsity);
}

static int compare_group(const void *key, const void *group)
{
    return group_key_compare(key, &((const cell_group *)group)->key);
}

const cell_group *section_find(const section *s, const group_key *key)
{
    if (s->group_count == 0) {
        return NULL;
    }
    return bsearch(key, s->groups, (size_t)s->group_count, sizeof s->groups[0], compare_group);
}

/* A plain cut with any samples and loop. Groups are ordered by selector, then variant, so bisection
 * finds the first candidate; there is one for each ratio and setting. */
static const cell_group *any_plain(const section *s, int selector, double sparsity)
{
    const cell_group *found = NULL;
    int low = 0;
    int high = s->group_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const bool below = s->groups[middle].key.selector < selector;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    for (int i = low; i < s->group_count && s->groups[i].key.selector == selector &&
                      s->groups[i].key.variant == VARIANT_NONE;
         i++) {
        const cell_group *g = &s->groups[i];
        if (ratio_compare(g->key.sparsity, sparsity) == 0 && g->key.setting == s->setting &&
            (found == NULL || g->key.open_loop == s->open_loop)) {
            found = g;
        }
    }
    return found;
}

const cell_group *section_at(const section *s, int selector, variant v, double sparsity)
{
    if (s->group_count == 0) {
        return NULL;
    }
    const group_key key = {
        .section = s->groups[0].key.section,
        .selector = selector,
        .variant = v,
        .samples = s->samples,
        .open_loop = s->open_loop,
        .setting = s->setting,
        .sparsity = sparsity,
    };
    const cell_group *exact = section_find(s, &key);
    return exact != NULL || v != VARIANT_NONE ? exact : any_plain(s, selector, sparsity);
}

bool section_shows(const section *s, const cell_group *group)
{
    return section_at(s, group->key.selector, group->key.variant, group->key.sparsity) == group;
}

variant section_best_variant(const section *s)
{
    static const variant order[] = {VARIANT_FULL,         VARIANT_GRAIL, VARIANT_FULL_REPAIR,
                                    VARIANT_GRAIL_REPAIR, VARIANT_OWN,   VARIANT_OWN_REPAIR,
                                    VARIANT_REPAIR,       VARIANT_NONE};
    for (int h = 0; h < HEAL_KINDS; h++) {
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            const variant v = variant_healed(order[i], (heal_kind)h);
            if (v != VARIANT_NONE && s->variants[v]) {
                return v;
            }
        }
    }
    return VARIANT_NONE;
}
