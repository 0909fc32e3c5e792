#include "study/page/data.h"

#include "study/page/figures.h"
#include "study/page/findings.h"
#include "study/page/row.h"
#include "study/page/tables.h"

/* Puts a value, which a function fills. */
static grail_status put(json_t *object, const char *key, json_t *made, const aggregate *a,
                        grail_status (*fill)(const aggregate *a, json_t *made))
{
    CHECK(json_put(object, key, made));
    return fill(a, made);
}

static grail_status put_figures(json_t *data, const aggregate *a)
{
    json_t *figures = json_array();
    CHECK(json_put(data, "figures", figures));
    return figures_add(a, json_object_get(data, "tables"), figures);
}

static grail_status put_names(json_t *data, const aggregate *a)
{
    json_t *variants = json_array();
    CHECK(json_put(data, "variants", variants));
    for (int v = 0; v < VARIANTS; v++) {
        CHECK(json_push(variants, variant_json((variant)v)));
    }
    json_t *selectors = json_array();
    CHECK(json_put(data, "selectors", selectors));
    for (int i = 0; i < a->results->selector_count; i++) {
        CHECK(json_push(selectors, json_text(a->results->selectors[i])));
    }
    return GRAIL_OK;
}

grail_status page_data(const aggregate *a, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *data = json_object();
    json_t *recipe = a->results->header.recipe;
    TRY(put(data, "facts", json_object(), a, findings_facts));
    TRY(put(data, "networks", json_array(), a, findings_networks));
    TRY(put(data, "comparisons", json_array(), a, findings_comparisons));
    TRY(put_names(data, a));
    TRY(put(data, "tables", json_object(), a, tables_put));
    TRY(put_figures(data, a));
    TRY(json_put(data, "recipe", recipe == NULL ? json_null() : json_incref(recipe)));
    *out = data;
    data = NULL;
out:
    json_decref(data);
    return status;
}
