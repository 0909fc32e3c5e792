#include "pipeline/request/plan_options.h"

#include "base/name_list.h"
#include "base/option_values.h"
#include "graph/operators.h"
#include "pipeline/request/cuts.h"
#include "pipeline/request/options.h"
#include "reduce/budget.h"

#include <string.h>

enum { PLAN_MAXIMUM = 64 << 20 };

/* The largest block of values that matrices of the blocks are stored in. */
static int64_t stored_block(const grail_model *model)
{
    const graph *g = model->graph;
    int64_t largest = 1;
    for (int n = 0; n < g->node_count; n++) {
        if (node_is_linear(&g->nodes[n]) && g->nodes[n].block < g->block_count) {
            const int64_t block = dtype_block(model->tensors[g->nodes[n].weight]->dtype);
            largest = block > largest ? block : largest;
        }
    }
    return largest;
}

alignment plan_alignment(const grail_model *model, const grail_compress_options *o)
{
    enum { BLOCK = 32, K_BLOCK = 256 };
    const char *type = o->output.quantize;
    const bool rounds = type != NULL && strcmp(type, rounded_type_names[0]) != 0;
    return (alignment){.step = o->cut.align,
                       .block = !rounds                      ? stored_block(model)
                                : name_ends_with(type, "_k") ? K_BLOCK
                                                             : BLOCK};
}

/* Sets the kept widths from the sparsities of kinds and of single sites. */
static grail_status apply_sparsities(const grail_model *model, const grail_compress_options *o,
                                     const site_list *sites, plan *p)
{
    const budget b = {
        .overrides = o->amount.site_sparsities,
        .override_count = o->amount.site_sparsity_count,
        .sparsity = {[SITE_FFN] = o->amount.sparsity_ffn,
                     [SITE_HEADS] = o->amount.sparsity_heads,
                     [SITE_CONV] = o->amount.sparsity_conv,
                     [SITE_STREAM] = o->amount.sparsity_stream,
                     [SITE_EXPERTS] = o->amount.sparsity_experts,
                     [SITE_LATENT] = o->amount.sparsity_latent,
                     [SITE_VALUES] = o->amount.sparsity_values,
                     [SITE_GROUPS] = o->amount.sparsity_groups},
        .align = plan_alignment(model, o),
    };
    return budget_apply(&b, sites, p);
}

/* The selector that decides the cut sites, as far as updates of their own go; `usual` where nothing
 * is cut. */
static grail_status selector_of_cuts(const plan *p, const selector *usual, const selector **out)
{
    const selector *rule = NULL;
    for (int i = 0; i < p->count; i++) {
        const selector *now = p->sites[i].selector;
        if (!site_is_cut(p, i) || !selector_decides(now, SITE_FFN)) { /* a rule for experts alone */
            continue;
        }
        if (rule != NULL && rule->own != now->own) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "the selectors '%s' and '%s' of the plan make different updates of "
                             "their own; choose none, grail or full",
                             rule->name, now->name);
        }
        rule = rule == NULL ? now : rule;
    }
    *out = rule == NULL ? usual : rule;
    return GRAIL_OK;
}

/* The name of the plan document in messages. */
static const char *plan_source(const grail_compress_options *o)
{
    return o->amount.plan != NULL ? o->amount.plan : "the plan";
}

/* *document is owned; NULL when the options name none. */
static grail_status read_document(const grail_compress_options *o, json_t **document)
{
    if (o->amount.plan != NULL) {
        return json_read_file(o->amount.plan, PLAN_MAXIMUM, document);
    }
    return o->amount.plan_text == NULL ? GRAIL_OK
                                       : json_parse(plan_source(o), o->amount.plan_text,
                                                    strlen(o->amount.plan_text), document);
}

/* -- what both the plan and the options say ---------------------------------------------------- */

/* Whether a list of words, separated by spaces, holds this one. */
static bool holds_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; *at != 0; at += strspn(at, " ")) {
        const size_t found = strcspn(at, " ");
        if (found == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += found;
    }
    return false;
}

static bool states(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value);
}

/* Then no site is left that takes the selector of the options. */
static bool every_site_states(const json_t *sites, const char *key)
{
    size_t stating = 0;
    while (states(json_array_get(sites, stating), key)) {
        stating++;
    }
    return stating > 0 && stating == json_array_size(sites);
}

static grail_status refuse_stated(const grail_compress_options *o, const char *place,
                                  const char *key, const char *field)
{
    return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                 "%s: \"%s%s\" is stated, and a plan goes before options; leave "
                                 "the option out, or take the key out of the plan",
                                 plan_source(o), place, key),
                       field);
}

static grail_status check_chosen(const grail_compress_options *o, const json_t *document)
{
    const json_t *how = json_object_get(document, "compensation");
    const bool fits = !json_is_false(json_object_get(how, "enabled"));
    if (holds_word(o->amount.chosen, "cut.selector") &&
        every_site_states(json_object_get(document, "sites"), "selector")) {
        return refuse_stated(o, "sites.", "selector", "cut.selector");
    }
    if (holds_word(o->amount.chosen, "fit.compensate") && states(how, "enabled")) {
        return refuse_stated(o, "compensation.", "enabled", "fit.compensate");
    }
    for (int i = 0; grail_compress_option_at(i) != NULL; i++) {
        const grail_option *f = grail_compress_option_at(i);
        if (f->key == NULL || !holds_word(o->amount.chosen, f->field)) {
            continue;
        }
        if (states(document, f->key)) {
            return refuse_stated(o, "", f->key, f->field);
        }
        if (states(how, f->key)) {
            return refuse_stated(o, "compensation.", f->key, f->field);
        }
        if (!fits && f->never_with != NULL && strcmp(f->never_with, NO_FIT) == 0) {
            return refuse_stated(o, "compensation.", "enabled", f->field);
        }
    }
    return GRAIL_OK;
}

/* What the document says precedes the options. */
static grail_status choose_compensation(const grail_compress_options *o, const selector *usual,
                                        const json_t *document, plan *p)
{
    const selector *rule = usual;
    if (strcmp(o->fit.compensate, "own") == 0) {
        CHECK(selector_of_cuts(p, usual, &rule));
    }
    CHECK(compensation_from_options(o, rule, &p->compensation));
    if (document != NULL) {
        CHECK(plan_read_compensation(plan_source(o), document, &p->compensation));
    }
    return GRAIL_OK;
}

grail_status plan_from_options(const grail_model *model, const grail_compress_options *o,
                               grail_site_list **sites, plan *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    const selector *rule = NULL;
    TRY(plan_from_fields(o, out));
    TRY(option_about("cut.selector", selector_from_name(o->cut.selector, &rule)));
    TRY(read_document(o, &document));
    if (document != NULL) {
        TRY(plan_read_gqa(plan_source(o), document, &out->gqa));
        TRY(o->amount.chosen == NULL ? GRAIL_OK : check_chosen(o, document));
    }
    const bool groups = out->gqa == GQA_KV_GROUPS;
    TRY(grail_model_sites(model, groups ? GRAIL_GQA_KV_GROUPS : GRAIL_GQA_QUERY_PER_GROUP, sites));
    TRY(plan_init(out, &(*sites)->list, rule));
    if (document != NULL) {
        TRY(plan_read(plan_source(o), document, &(*sites)->list, out));
    } else if ((*sites)->list.count > 0 || grail_model_region_at(model, 0).node == NULL) {
        TRY(apply_sparsities(model, o, &(*sites)->list, out));
    } /* else all of it may be regions: nothing is cut, as a notice of the model says */
    TRY(choose_compensation(o, rule, document, out));
out:
    json_decref(document);
    return status;
}
