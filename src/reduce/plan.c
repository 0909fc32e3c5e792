#include "reduce/plan.h"

#include "base/names.h"
#include "reduce/plan_units.h"

#include <math.h>
#include <string.h>

enum { PLAN_VERSION = 1 };

static const char *const target_names[] = {"local", "dense", "mixed", NULL};
static const char *const bias_names[] = {"off", "on", "auto", NULL};
static const char *const fit_names[] = {"weights", "bias-only", NULL};
static const char *const ridge_base_names[] = {"kept", "all", NULL};
static const char *const shrink_names[] = {"zero", "prior", NULL};
static const char *const refit_names[] = {"none", "auto", "all", NULL};
static const char *const ridge_scale_names[] = {"mean", "diagonal", NULL};
static const char *const token_weights_names[] = {"none", "stream", NULL};
static const char *const conv_fit_names[] = {"channel", "kernel", NULL};
static const char *const loop_names[] = {"closed", "open", NULL};
static const char *const stream_score_names[] = {"first", "all", "branch", NULL};
static const char *const gqa_names[] = {"kv-groups", "query-per-group", NULL};

/* The keys that plan_to_json writes. Any other key is refused, since it would have no effect. */
static const char *const plan_keys[] = {"grail_plan", "gqa",          "seed",   "loop",
                                        "select",     "stream_score", "repair", "compensation",
                                        "budget",     "sites",        NULL};
static const char *const compensation_keys[] = {
    "enabled", "target",      "bias",          "conv_fit",
    "ridge",   "ridge_scale", "token_weights", "refit",
    "alpha",   "fit",         "ridge_of",      "regional_training",
    NULL};
static const char *const site_keys[] = {"site", "kind",       "selector", "units",
                                        "kept", "kept_units", NULL};

/* `names` end with NULL. */
static grail_status name_index(const char *what, const char *name, const char *const names[],
                               int *out)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = i;
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT, "unknown %s '%s'; expected one of", what, name);
    error_append_known(name, names);
    return status;
}

/* Defines NAME_from_name, which finds the value of an enumeration by its name. */
#define DEFINE_FROM_NAME(function, type, what, names)                                              \
    grail_status function(const char *name, type *out)                                             \
    {                                                                                              \
        int index = 0;                                                                             \
        const grail_status status = name_index(what, name, names, &index);                         \
        if (status == GRAIL_OK) {                                                                  \
            *out = (type)index;                                                                    \
        }                                                                                          \
        return status;                                                                             \
    }

DEFINE_FROM_NAME(target_from_name, target_kind, "target", target_names)
DEFINE_FROM_NAME(bias_from_name, bias_mode, "bias mode", bias_names)
DEFINE_FROM_NAME(fit_from_name, fit_kind, "fit", fit_names)
DEFINE_FROM_NAME(ridge_base_from_name, ridge_base, "ridge base", ridge_base_names)
DEFINE_FROM_NAME(shrink_from_name, ridge_shrink, "ridge", shrink_names)
DEFINE_FROM_NAME(refit_from_name, refit_kind, "refit", refit_names)
DEFINE_FROM_NAME(ridge_scale_from_name, ridge_scale, "ridge scale", ridge_scale_names)
DEFINE_FROM_NAME(token_weights_from_name, token_weights, "token weights", token_weights_names)
DEFINE_FROM_NAME(conv_fit_from_name, conv_fit, "convolution fit", conv_fit_names)
DEFINE_FROM_NAME(loop_from_name, loop_kind, "loop", loop_names)
DEFINE_FROM_NAME(selection_from_name, loop_kind, "selection", loop_names)
DEFINE_FROM_NAME(stream_score_from_name, stream_score, "stream score", stream_score_names)

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
    return target_names[target];
}

bool plan_selects_openly(const plan *p)
{
    return p->selection == LOOP_OPEN || p->loop == LOOP_OPEN;
}

bool compensation_uses_dense(const compensation *c)
{
    return c->enabled && c->target != TARGET_LOCAL;
}

grail_status compensation_from_name(const char *name, const selector *rule, compensation *out)
{
    enum { OWN = 1 };
    static const char *const names[] = {"none", [OWN] = "own", "grail", "full", NULL};
    static const compensation presets[] = {
        {.enabled = false, .alpha = 1e-3},
        [OWN] = {0},
        {.enabled = true,
         .target = TARGET_LOCAL,
         .bias = BIAS_OFF,
         .conv = CONV_FIT_CHANNEL,
         .shrink = SHRINK_TO_ZERO,
         .alpha = 1e-3},
        {.enabled = true,
         .target = TARGET_MIXED,
         .bias = BIAS_AUTO,
         .conv = CONV_FIT_KERNEL,
         .shrink = SHRINK_TO_PRIOR,
         .weights = TOKEN_WEIGHTS_STREAM,
         .refit = REFIT_AUTO,
         .alpha = (double)NAN},
    };
    int index = 0;
    const grail_status status = name_index("compensation", name, names, &index);
    if (status == GRAIL_OK && index == OWN) {
        return own_compensation(rule, out);
    }
    if (status == GRAIL_OK) {
        *out = presets[index];
    }
    return status;
}

grail_status plan_init(plan *p, const site_list *sites, const selector *rule)
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&p->sites, (size_t)sites->count, sizeof p->sites[0]));
    for (int i = 0; i < sites->count; i++) {
        plan_site *own = &p->sites[i];
        *own = (plan_site){
            .selector = rule, .units = sites->sites[i].units, .kept = sites->sites[i].units};
        p->count = i + 1;
        TRY(memory_copy_string(&own->name, sites->sites[i].name));
    }
out:
    return status;
}

void plan_fini(plan *p)
{
    for (int i = 0; i < p->count; i++) {
        memory_free(p->sites[i].name);
        memory_free(p->sites[i].kept_units);
    }
    memory_free(p->sites);
    *p = (plan){0};
}

/* Finds the value of a name in a document; errors name the document. */
static grail_status in_document(const char *source, grail_status status)
{
    if (status != GRAIL_OK) {
        error_prefix("%s", source);
    }
    return status;
}

static grail_status read_compensation(const char *source, const json_t *object, compensation *c)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    const char *target = NULL;
    const char *bias = NULL;
    const char *fit = NULL;
    const char *base = NULL;
    const char *shrink = NULL;
    const char *refit = NULL;
    const char *scale = NULL;
    const char *weights = NULL;
    const char *conv = NULL;
    if (object == NULL || json_is_null(object)) {
        return GRAIL_OK;
    }
    TRY(memory_format(&where, "%s: compensation", source));
    TRY(json_check_keys(where, object, compensation_keys));
    TRY(json_get_boolean(source, object, "enabled", c->enabled, &c->enabled));
    TRY(json_get_string(source, object, "target", target_names[c->target], &target));
    TRY(json_get_string(source, object, "bias", bias_names[c->bias], &bias));
    TRY(json_get_string(source, object, "fit", fit_names[c->fit], &fit));
    TRY(json_get_string(source, object, "ridge_of", ridge_base_names[c->ridge_of], &base));
    TRY(json_get_string(source, object, "ridge", shrink_names[c->shrink], &shrink));
    TRY(json_get_string(source, object, "refit", refit_names[c->refit], &refit));
    TRY(json_get_string(source, object, "ridge_scale", ridge_scale_names[c->scale], &scale));
    TRY(json_get_string(source, object, "token_weights", token_weights_names[c->weights],
                        &weights));
    TRY(json_get_string(source, object, "conv_fit", conv_fit_names[c->conv], &conv));
    TRY(in_document(source, conv_fit_from_name(conv, &c->conv)));
    TRY(in_document(source, target_from_name(target, &c->target)));
    TRY(in_document(source, bias_from_name(bias, &c->bias)));
    TRY(in_document(source, fit_from_name(fit, &c->fit)));
    TRY(in_document(source, ridge_base_from_name(base, &c->ridge_of)));
    TRY(in_document(source, shrink_from_name(shrink, &c->shrink)));
    TRY(in_document(source, refit_from_name(refit, &c->refit)));
    TRY(in_document(source, ridge_scale_from_name(scale, &c->scale)));
    TRY(in_document(source, token_weights_from_name(weights, &c->weights)));
    TRY(json_get_boolean(source, object, "regional_training", c->trains_regions,
                         &c->trains_regions));
    const json_t *alpha = json_object_get(object, "alpha");
    if (json_is_string(alpha) && strcmp(json_string_value(alpha), "cross-validation") == 0) {
        c->alpha = (double)NAN;
    } else {
        TRY(json_get_real(source, object, "alpha", c->alpha, &c->alpha));
        if (c->alpha < 0.0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "%s: \"alpha\" is negative; expected 0 or more, or \"cross-validation\"", source);
        }
    }
out:
    memory_free(where);
    return status;
}

/* seen[sites->count] marks those that an entry has named. */
static grail_status read_site(const char *source, const json_t *entry, const site_list *sites,
                              bool seen[], plan *p)
{
    grail_status status = GRAIL_OK;
    const char *name = NULL;
    const char *rule = NULL;
    TRY(json_get_string(source, entry, "site", NULL, &name));
    if (name == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: an entry of \"sites\" has no \"site\"", source);
    }
    const int index = site_list_find(sites, name);
    if (index < 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: '%s' is not a site of this model; grail inspect lists the sites", source, name);
    }
    if (seen[index]) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: site '%s' appears twice in \"sites\"", source, name);
    }
    seen[index] = true;
    plan_site *own = &p->sites[index];
    TRY(json_get_string(source, entry, "selector", own->selector->name, &rule));
    TRY(in_document(source, selector_from_name(rule, &own->selector)));
    TRY(plan_site_read_units(source, entry, &sites->sites[index], own));
out:
    return status;
}

grail_status plan_read_gqa(const char *source, const json_t *document, gqa_mode *out)
{
    grail_status status = GRAIL_OK;
    const char *gqa = NULL;
    int64_t version = 0;
    int index = 0;
    if (!json_is_object(document)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: not a JSON object", source);
    }
    if (json_object_get(document, "grail_plan") == NULL) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: not a plan, expected \"grail_plan\": %d; every run writes its plan to plan.json",
             source, PLAN_VERSION);
    }
    TRY(json_get_integer(source, document, "grail_plan", 0, &version));
    if (version != PLAN_VERSION) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"grail_plan\" is %lld, expected %d", source,
             (long long)version, PLAN_VERSION);
    }
    TRY(json_get_string(source, document, "gqa", gqa_names[*out], &gqa));
    TRY(in_document(source, name_index("gqa mode", gqa, gqa_names, &index)));
    *out = (gqa_mode)index;
out:
    return status;
}

static grail_status read_network_options(const char *source, const json_t *document, plan *p)
{
    grail_status status = GRAIL_OK;
    const char *loop = NULL;
    const char *selection = NULL;
    const char *score = NULL;
    TRY(json_get_string(source, document, "loop", loop_names[p->loop], &loop));
    TRY(json_get_string(source, document, "select", loop_names[p->selection], &selection));
    TRY(json_get_string(source, document, "stream_score", stream_score_names[p->stream_score],
                        &score));
    TRY(json_get_boolean(source, document, "repair", p->repair, &p->repair));
    TRY(in_document(source, loop_from_name(loop, &p->loop)));
    TRY(in_document(source, selection_from_name(selection, &p->selection)));
    TRY(in_document(source, stream_score_from_name(score, &p->stream_score)));
out:
    return status;
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
    grail_status status = GRAIL_OK;
    int64_t seed = 0;
    TRY(plan_read_gqa(source, document, &p->gqa));
    TRY(json_check_keys(source, document, plan_keys));
    TRY(json_get_integer(source, document, "seed", (int64_t)p->seed, &seed));
    p->seed = (uint64_t)seed;
    TRY(read_network_options(source, document, p));
    TRY(read_sites(source, json_object_get(document, "sites"), sites, p));
out:
    return status;
}

grail_status plan_read_compensation(const char *source, const json_t *document, compensation *c)
{
    return read_compensation(source, json_object_get(document, "compensation"), c);
}

static grail_status compensation_to_json(const compensation *c, json_t *object)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "enabled", json_boolean(c->enabled)));
    TRY(json_put(object, "target", json_text(target_names[c->target])));
    TRY(json_put(object, "bias", json_text(bias_names[c->bias])));
    TRY(json_put(object, "conv_fit", json_text(conv_fit_names[c->conv])));
    TRY(json_put(object, "ridge", json_text(shrink_names[c->shrink])));
    TRY(json_put(object, "refit", json_text(refit_names[c->refit])));
    TRY(json_put(object, "ridge_scale", json_text(ridge_scale_names[c->scale])));
    TRY(json_put(object, "token_weights", json_text(token_weights_names[c->weights])));
    TRY(json_put(object, "alpha",
                 isnan(c->alpha) ? json_text("cross-validation") : json_real(c->alpha)));
    TRY(json_put(object, "fit", json_text(fit_names[c->fit])));
    TRY(json_put(object, "ridge_of", json_text(ridge_base_names[c->ridge_of])));
    TRY(json_put(object, "regional_training", json_boolean(c->trains_regions)));
out:
    return status;
}

static grail_status site_to_json(const plan_site *own, const site *s, json_t *array)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    TRY(json_push(array, entry));
    TRY(json_put(entry, "site", json_text(own->name)));
    TRY(json_put(entry, "kind", json_text(site_kind_name(s->kind))));
    TRY(json_put(entry, "selector", json_text(own->selector->name)));
    TRY(json_put(entry, "units", json_integer(own->units)));
    TRY(plan_site_write_units(own, entry));
out:
    return status;
}

grail_status plan_to_json(const plan *p, const site_list *sites, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *document = json_object();
    TRY(json_put(document, "grail_plan", json_integer(PLAN_VERSION)));
    TRY(json_put(document, "gqa", json_text(gqa_names[p->gqa])));
    TRY(json_put(document, "seed", json_integer((json_int_t)p->seed)));
    TRY(json_put(document, "loop", json_text(loop_names[p->loop])));
    TRY(json_put(document, "select", json_text(loop_names[p->selection])));
    TRY(json_put(document, "stream_score", json_text(stream_score_names[p->stream_score])));
    TRY(json_put(document, "repair", json_boolean(p->repair)));
    TRY(json_put(document, "compensation", json_object()));
    TRY(compensation_to_json(&p->compensation, json_object_get(document, "compensation")));
    TRY(json_put(document, "sites", json_array()));
    for (int i = 0; i < p->count; i++) {
        TRY(site_to_json(&p->sites[i], &sites->sites[i], json_object_get(document, "sites")));
    }
    *out = document;
    document = NULL;
out:
    json_decref(document);
    return status;
}
