#include "reduce/plan.h"

enum { PLAN_VERSION = 1 };

const char *const gqa_words[] = {"kv-groups", "query-per-group", NULL};
const char *const loop_words[] = {"closed", "open", NULL};
const char *const stream_score_words[] = {"first", "all", "branch", NULL};
const char *const metric_words[] = {"auto", "plain", "fisher", NULL};
const char *const compensation_words[] = {"none", "own", "grail", "full", NULL};
const char *const target_words[] = {"local", "dense", "mixed", NULL};
const char *const bias_words[] = {"off", "on", "auto", NULL};
const char *const conv_fit_words[] = {"channel", "kernel", NULL};
const char *const ridge_words[] = {"zero", "prior", NULL};
const char *const refit_words[] = {"none", "auto", "all", NULL};
const char *const ridge_scale_words[] = {"mean", "diagonal", NULL};
const char *const token_weights_words[] = {"none", "stream", NULL};
static const char *const fit_words[] = {"weights", "bias-only", NULL};
static const char *const ridge_base_words[] = {"kept", "all", NULL};

/* clang-format off */
#define CHOICE(owner, member, list)                                                                \
    {OPTION_FIELD(owner, member), .type = GRAIL_OPTION_CHOICE, .key = #member, .words = (list)}
#define FLAG(owner, member)                                                                        \
    {OPTION_FIELD(owner, member), .type = GRAIL_OPTION_FLAG, .key = #member}

/* A document has these keys and those below. Any other key is refused, since it would have no
 * effect. */
const grail_option plan_fields[] = {
    CHOICE(plan, gqa, gqa_words),
    {OPTION_FIELD(plan, seed), .type = GRAIL_OPTION_SEED, .key = "seed"},
    CHOICE(plan, loop, loop_words),
    CHOICE(plan, select, loop_words),
    CHOICE(plan, stream_score, stream_score_words),
    CHOICE(plan, metric, metric_words),
    FLAG(plan, repair),
    {0},
};
const grail_option compensation_fields[] = {
    FLAG(compensation, enabled),
    CHOICE(compensation, target, target_words),
    CHOICE(compensation, bias, bias_words),
    CHOICE(compensation, conv_fit, conv_fit_words),
    CHOICE(compensation, ridge, ridge_words),
    CHOICE(compensation, refit, refit_words),
    CHOICE(compensation, ridge_scale, ridge_scale_words),
    CHOICE(compensation, token_weights, token_weights_words),
    {OPTION_FIELD(compensation, alpha), .type = GRAIL_OPTION_NUMBER, .key = "alpha"},
    CHOICE(compensation, fit, fit_words),
    CHOICE(compensation, ridge_of, ridge_base_words),
    FLAG(compensation, regional_training),
    {0},
};
/* clang-format on */

static const char *const other_plan_keys[] = {"grail_plan", "compensation", "budget", "sites",
                                              NULL};
static const char *const site_keys[] = {"site", "kind",       "selector", "units",
                                        "kept", "kept_units", NULL};

/* The error names the selectors that have an update of their own. */
static grail_status own_compensation(const selector *rule, compensation *out)
{
    int named = 0;
    if (rule->own != NULL) {
        *out = *rule->own;
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT,
                  "selector '%s' has no update of its own; choose none, grail or full; these "
                  "selectors have one:",
                  rule->name);
    for (int i = 0; selector_at(i) != NULL; i++) {
        if (selector_at(i)->own != NULL) {
            error_append("%s %s", named++ == 0 ? "" : ",", selector_at(i)->name);
        }
    }
    return status;
}

const char *target_name(target_kind target)
{
    return target_words[target];
}

bool plan_selects_openly(const plan *p)
{
    return p->select == LOOP_OPEN || p->loop == LOOP_OPEN;
}

bool compensation_uses_dense(const compensation *c)
{
    return c->enabled && c->target != TARGET_LOCAL;
}

grail_status compensation_from_name(const char *name, const selector *rule, compensation *out)
{
    enum { OWN = 1 };
    static const compensation presets[] = {
        {.enabled = false, .alpha = {GRAIL_NUMBER_GIVEN, 1e-3}},
        [OWN] = {0},
        {.enabled = true,
         .target = TARGET_LOCAL,
         .bias = BIAS_OFF,
         .conv_fit = CONV_FIT_CHANNEL,
         .ridge = RIDGE_ZERO,
         .alpha = {GRAIL_NUMBER_GIVEN, 1e-3}},
        {.enabled = true,
         .target = TARGET_MIXED,
         .bias = BIAS_AUTO,
         .conv_fit = CONV_FIT_KERNEL,
         .ridge = RIDGE_PRIOR,
         .token_weights = TOKEN_WEIGHTS_STREAM,
         .refit = REFIT_AUTO,
         .alpha = {.choice = GRAIL_NUMBER_CROSS_VALIDATED}},
    };
    int index = 0;
    const grail_status status = option_find_word("compensation", name, compensation_words, &index);
    if (status == GRAIL_OK && index == OWN) {
        return own_compensation(rule, out);
    }
    if (status == GRAIL_OK) {
        *out = presets[index];
    }
    return status;
}

void plan_site_leave(plan_site *own)
{
    own->is_gone = true;
    own->kept = own->units;
    memory_free(own->kept_units);
    own->kept_units = NULL;
}

grail_status plan_init(plan *p, const site_list *sites, const selector *rule)
{
    CHECK(memory_new(&p->sites, (size_t)sites->count, sizeof p->sites[0]));
    for (int i = 0; i < sites->count; i++) {
        plan_site *own = &p->sites[i];
        *own = (plan_site){.selector = selector_for(rule, sites->sites[i].kind),
                           .units = sites->sites[i].units,
                           .kept = sites->sites[i].units,
                           .normed = sites->sites[i].normed};
        p->count = i + 1;
        CHECK(memory_copy_string(&own->name, sites->sites[i].name));
    }
    return GRAIL_OK;
}

void plan_fini(plan *p)
{
    for (int i = 0; i < p->count; i++) {
        memory_free(p->sites[i].name);
        memory_free(p->sites[i].kept_units);
    }
    memory_free(p->sites);
    json_decref(p->budget);
    *p = (plan){0};
}

/* -- reading ----------------------------------------------------------------------------------- */

/* Copies units[count] of a list and checks that each is one of the site's and above the one before.
 */
static grail_status copy_units(const char *source, const json_t *list, const site *s, int64_t count,
                               int64_t *units)
{
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is not an integer; give indices "
                             "of units from 0 to %lld",
                             source, s->name, (long long)i, (long long)s->units - 1);
        }
        units[i] = json_integer_value(value);
        if (units[i] < 0 || units[i] >= s->units) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is %lld, expected a unit from 0 "
                             "to %lld; grail inspect lists the units of a site",
                             source, s->name, (long long)i, (long long)units[i],
                             (long long)s->units - 1);
        }
        if (i > 0 && units[i] <= units[i - 1]) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\"[%lld] is %lld after %lld; sort the "
                             "units, each once",
                             source, s->name, (long long)i, (long long)units[i],
                             (long long)units[i - 1]);
        }
    }
    return GRAIL_OK;
}

/* Every group of units must keep the same number. */
static grail_status check_groups(const char *source, const site *s, int64_t count,
                                 const int64_t *units)
{
    const int64_t in_group = s->units / s->groups;
    int64_t i = 0;
    for (int64_t g = 0; g < s->groups; g++) {
        const int64_t before = i;
        while (i < count && units[i] < (g + 1) * in_group) {
            i++;
        }
        if (i - before != count / s->groups) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: site '%s': \"kept_units\" keeps %lld of the units %lld to %lld, "
                             "expected %lld: as many of each of the %lld groups",
                             source, s->name, (long long)(i - before), (long long)(g * in_group),
                             (long long)((g + 1) * in_group - 1), (long long)(count / s->groups),
                             (long long)s->groups);
        }
    }
    return GRAIL_OK;
}

/* own->kept_units from a list of own->kept; NULL and JSON's null name none. */
static grail_status read_kept_units(const char *source, const json_t *list, const site *s,
                                    plan_site *own)
{
    if (list == NULL || json_is_null(list)) {
        return GRAIL_OK;
    }
    if (own->kept == 0 || json_array_size(list) != (size_t)own->kept) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s': \"kept_units\" names %zu units, but \"kept\" is %lld; %s",
                         source, s->name, json_array_size(list), (long long)own->kept,
                         own->kept == 0 ? "leave \"kept_units\" out to drop the sublayer"
                                        : "make them agree, or leave \"kept\" out");
    }
    if (own->selector->folds) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: site '%s': the selector '%s' merges units, but \"kept_units\" keeps some as "
            "they are; name a selector that keeps units",
            source, s->name, own->selector->name);
    }
    CHECK(memory_new(&own->kept_units, (size_t)own->kept, sizeof own->kept_units[0]));
    CHECK(copy_units(source, list, s, own->kept, own->kept_units));
    return check_groups(source, s, own->kept, own->kept_units);
}

/* The width: "kept", or as many units as "kept_units" names. */
static grail_status read_width(const char *source, const json_t *entry, const json_t *list,
                               const site *s, int64_t *kept)
{
    const bool named = list != NULL && !json_is_null(list);
    if (named && (!json_is_array(list) || json_array_size(list) == 0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s': \"kept_units\" is not an array of units; give the "
                         "ascending indices of those that stay",
                         source, s->name);
    }
    if (!named && json_object_get(entry, "kept") == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' has no \"kept\"; give the number of units to keep", source,
                         s->name);
    }
    return json_get_integer(source, entry, "kept",
                            named ? (int64_t)json_array_size(list) : s->units, kept);
}

/* "units", "kept" and "kept_units" of an entry of "sites"; own->selector is the one that it names.
 */
static grail_status read_units(const char *source, const json_t *entry, const site *s,
                               plan_site *own)
{
    int64_t units = 0;
    const json_t *list = json_object_get(entry, "kept_units");
    CHECK(json_get_integer(source, entry, "units", s->units, &units));
    CHECK(read_width(source, entry, list, s, &own->kept));
    if (units != s->units) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' has %lld units in this model, but the plan says %lld",
                         source, s->name, (long long)s->units, (long long)units);
    }
    if (own->kept < 0 || own->kept > s->units) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: site '%s' keeps %lld units, expected 1 to %lld, or 0 to drop its whole sublayer",
            source, s->name, (long long)own->kept, (long long)s->units);
    }
    if (own->kept % s->groups != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: site '%s' keeps %lld units, expected a multiple of its %lld groups",
                         source, s->name, (long long)own->kept, (long long)s->groups);
    }
    return read_kept_units(source, list, s, own);
}

/* seen[sites->count] marks those that an entry has named. */
static grail_status read_site(const char *source, const json_t *entry, const site_list *sites,
                              bool seen[], plan *p)
{
    const char *name = NULL;
    const char *rule = NULL;
    CHECK(json_get_string(source, entry, "site", NULL, &name));
    if (name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: an entry of \"sites\" has no \"site\"", source);
    }
    const int index = site_list_find(sites, name);
    if (index < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: '%s' is not a site of this model; grail inspect lists the sites",
                         source, name);
    }
    if (seen[index]) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: site '%s' appears twice in \"sites\"", source,
                         name);
    }
    seen[index] = true;
    plan_site *own = &p->sites[index];
    CHECK(json_get_string(source, entry, "selector", own->selector->name, &rule));
    CHECK(error_in(selector_from_name(rule, &own->selector), "%s", source));
    return read_units(source, entry, &sites->sites[index], own);
}

grail_status plan_read_gqa(const char *source, const json_t *document, gqa_mode *out)
{
    plan p = {0};
    int64_t version = 0;
    if (!json_is_object(document)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: not a JSON object", source);
    }
    if (json_object_get(document, "grail_plan") == NULL) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s: not a plan, expected \"grail_plan\": %d; every run writes its plan to plan.json",
            source, PLAN_VERSION);
    }
    CHECK(json_get_integer(source, document, "grail_plan", 0, &version));
    if (version != PLAN_VERSION) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"grail_plan\" is %lld, expected %d", source,
                         (long long)version, PLAN_VERSION);
    }
    p.gqa = *out;
    CHECK(options_from_json(source, document, plan_fields, &p));
    *out = p.gqa;
    return GRAIL_OK;
}

static grail_status read_sites(const char *source, const json_t *entries, const site_list *sites,
                               plan *p)
{
    grail_status status = GRAIL_OK;
    bool *seen = NULL;
    char *where = NULL;
    if (!json_is_array(entries)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array", source);
    }
    TRY(memory_new(&seen, (size_t)sites->count, sizeof seen[0]));
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        memory_free(where);
        where = NULL;
        TRY(memory_format(&where, "%s: sites[%zu]", source, i));
        TRY(json_check_keys(where, entry, site_keys));
        TRY(read_site(source, entry, sites, seen, p));
    }
out:
    memory_free(where);
    memory_free(seen);
    return status;
}

grail_status plan_read(const char *source, const json_t *document, const site_list *sites, plan *p)
{
    CHECK(plan_read_gqa(source, document, &p->gqa));
    CHECK(options_check_keys(source, document, plan_fields, other_plan_keys));
    CHECK(options_from_json(source, document, plan_fields, p));
    p->budget = json_incref(json_object_get(document, "budget"));
    return read_sites(source, json_object_get(document, "sites"), sites, p);
}

grail_status plan_read_compensation(const char *source, const json_t *document, compensation *c)
{
    static const char *const no_more[] = {NULL};
    grail_status status = GRAIL_OK;
    char *where = NULL;
    const json_t *object = json_object_get(document, "compensation");
    if (object == NULL || json_is_null(object)) {
        return GRAIL_OK;
    }
    TRY(memory_format(&where, "%s: compensation", source));
    TRY(options_check_keys(where, object, compensation_fields, no_more));
    TRY(options_from_json(source, object, compensation_fields, c));
out:
    memory_free(where);
    return status;
}

static grail_status site_to_json(const plan_site *own, const site *s, json_t *array)
{
    json_t *entry = json_object();
    CHECK(json_push(array, entry));
    CHECK(json_put(entry, "site", json_text(own->name)));
    CHECK(json_put(entry, "kind", json_text(site_kind_name(s->kind))));
    CHECK(json_put(entry, "selector", json_text(own->selector->name)));
    CHECK(json_put(entry, "units", json_integer(own->units)));
    CHECK(json_put(entry, "kept", json_integer(own->kept)));
    if (own->kept_units == NULL) {
        return GRAIL_OK;
    }
    json_t *list = json_array();
    CHECK(json_put(entry, "kept_units", list));
    for (int64_t i = 0; i < own->kept; i++) {
        CHECK(json_push(list, json_integer(own->kept_units[i])));
    }
    return GRAIL_OK;
}

grail_status plan_to_json(const plan *p, const site_list *sites, json_t *document)
{
    CHECK(json_put(document, "grail_plan", json_integer(PLAN_VERSION)));
    CHECK(options_to_json(plan_fields, p, document));
    json_t *how = json_object();
    CHECK(json_put(document, "compensation", how));
    CHECK(options_to_json(compensation_fields, &p->compensation, how));
    json_t *list = json_array();
    CHECK(json_put(document, "sites", list));
    for (int i = 0; i < p->count; i++) {
        CHECK(site_to_json(&p->sites[i], &sites->sites[i], list));
    }
    return GRAIL_OK;
}
