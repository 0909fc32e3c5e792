/* The public choice of units. */
#include "base/memory.h"
#include "base/option_values.h"
#include "solve/given_site.h"

#include <string.h>

void grail_site_init(grail_site *given)
{
    *given = (grail_site){.kind = "ffn", .groups = 1, .subunits = 1};
}

/* The rule of that name for sites of this kind. */
static grail_status find_rule(const char *name, const grail_site *given, const selector **out)
{
    const selector *rule = NULL;
    site_kind kind = SITE_FFN;
    CHECK(option_given("selector", "name of a selector", name));
    CHECK(option_given("site", "site", given));
    CHECK(option_about("selector", selector_from_name(name, &rule)));
    if (given->kind != NULL) {
        CHECK(given_site_kind(given->kind, &kind));
    }
    rule = selector_for(rule, kind);
    if (!selector_decides(rule, kind)) {
        return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                     "the selector '%s' has no rule for sites of kind '%s'", name,
                                     site_kind_name(kind)),
                           "selector");
    }
    *out = rule;
    return GRAIL_OK;
}

grail_status grail_select(const char *selector_name, const grail_site *given, int64_t kept,
                          grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    given_site s = {0};
    const selector *rule = NULL;
    CHECK(option_given("out", "place for the reducer", out));
    TRY(find_rule(selector_name, given, &rule));
    TRY(given_site_init(given, rule, kept, &s));
    TRY(selector_choose(rule, &s.view, out));
out:
    given_site_fini(&s);
    return status;
}

/* values[count] of a function of the view, which begin as zeros. */
static grail_status evaluate(const selector *rule, const grail_site *given,
                             grail_status (*of)(const site_view *view, double *values),
                             int64_t count, double *out)
{
    grail_status status = GRAIL_OK;
    given_site s = {0};
    double *values = NULL;
    TRY(given_site_init(given, rule, given->units, &s));
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    TRY(of(&s.view, values));
    memcpy(out, values, (size_t)count * sizeof out[0]);
out:
    given_site_fini(&s);
    memory_free(values);
    return status;
}

static grail_status has_none(const selector *rule, const char *what)
{
    return error_about(
        error_set(GRAIL_ERROR_UNSUPPORTED, "the selector '%s' has no %s", rule->name, what),
        "selector");
}

grail_status grail_select_scores(const char *selector_name, const grail_site *given, double *scores)
{
    const selector *rule = NULL;
    CHECK(option_given("scores", "array for the scores", scores));
    CHECK(find_rule(selector_name, given, &rule));
    return rule->score == NULL ? has_none(rule, "scores of single units")
                               : evaluate(rule, given, rule->score, given->units, scores);
}

grail_status grail_select_losses(const char *selector_name, const grail_site *given, double *losses)
{
    const selector *rule = NULL;
    CHECK(option_given("losses", "array for the losses", losses));
    CHECK(find_rule(selector_name, given, &rule));
    return rule->losses == NULL ? has_none(rule, "losses by the number of units")
                                : evaluate(rule, given, rule->losses, given->units + 1, losses);
}
