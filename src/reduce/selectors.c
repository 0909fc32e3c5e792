/* Finding a selector by its place or name. */
#include "base/names.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

#include <string.h>

#define SELECTOR(name) &selector_##name,
static const selector *const selectors[] = {
#include "reduce/selector_list.h"
};
#undef SELECTOR

enum { SELECTORS = sizeof selectors / sizeof selectors[0] };

const selector *selector_at(int i)
{
    return i >= 0 && i < SELECTORS ? selectors[i] : NULL;
}

int selector_index(const selector *s)
{
    int i = 0;
    while (selectors[i] != s) {
        i++;
    }
    return i;
}

static const char *name_at(const void *list, int i)
{
    (void)list;
    return selector_at(i) == NULL ? NULL : selector_at(i)->name;
}

grail_status selector_from_name(const char *name, const selector **out)
{
    for (int i = 0; i < SELECTORS; i++) {
        if (strcmp(name, selectors[i]->name) == 0) {
            *out = selectors[i];
            return GRAIL_OK;
        }
    }
    error_set(GRAIL_ERROR_ARGUMENT, "unknown selector '%s'; expected one of", name);
    error_append_names(name, name_at, NULL);
    return GRAIL_ERROR_ARGUMENT;
}

bool selector_decides(const selector *rule, site_kind kind)
{
    return kind == SITE_EXPERTS ? rule->decides_experts : (rule->excluded_kinds & 1U << kind) == 0;
}

const selector *selector_for(const selector *rule, site_kind kind)
{
    return kind == SITE_EXPERTS && !selector_decides(rule, kind) ? &selector_reap : rule;
}

unsigned selector_needs(const selector *rule, const site *s)
{
    return rule->always_needs | (rule->needs == NULL ? 0 : rule->needs(s));
}

unsigned selector_needs_gram(const site *s)
{
    return site_kind_is_shared(s->kind) ? NEEDS_GRAM | NEEDS_ALL_CONSUMERS : NEEDS_GRAM;
}

grail_status selector_decide(const selector *rule, const site_view *view, grail_reducer **out)
{
    return rule->score != NULL ? select_by_scores(view, rule->score, out) : rule->decide(view, out);
}

grail_status selector_choose(const selector *rule, const site_view *view, grail_reducer **out)
{
    double weight = 0.0; /* 0: no row reached what the selector looks at */
    for (int i = 0; i < view->input_count; i++) {
        weight += view->inputs[i].weight;
    }
    const bool blind = view->input_count > 0 && weight == 0.0 && !rule->folds;
    return selector_decide(blind ? &selector_magnitude_l2 : rule, view, out);
}
