#include "study/page/data.h"

#include "study/page/figures.h"
#include "study/page/findings.h"
#include "study/page/row.h"
#include "study/page/tables.h"

/* Puts what a function makes of the aggregate. */
static grail_status put(json_t *object, const char *key, const aggregate *a,
                        grail_status (*make)(const aggregate *a, json_t **out))
{
    json_t *made = NULL;
    CHECK(make(a, &made));
    return json_put(object, key, made);
}

static grail_status cells(const aggregate *a, json_t **out)
{
    return table_cells(a, false, out);
}

static grail_status failures(const aggregate *a, json_t **out)
{
    return table_cells(a, true, out);
}

static grail_status put_tables(json_t *data, const aggregate *a)
{
    static const struct {
        const char *name;
        grail_status (*make)(const aggregate *a, json_t **out);
    } all[] = {{"groups", table_groups},   {"sites", table_sites}, {"cost", table_cost},
               {"healing", table_healing}, {"dense", table_dense}, {"cells", cells},
               {"failures", failures}};
    json_t *tables = json_object();
    CHECK(json_put(data, "tables", tables));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK(put(tables, all[i].name, a, all[i].make));
    }
    json_t *figures = NULL;
    CHECK(figures_list(a, tables, &figures));
    return json_put(data, "figures", figures);
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
    TRY(put(data, "facts", a, findings_facts));
    TRY(put(data, "networks", a, findings_networks));
    TRY(put(data, "comparisons", a, findings_comparisons));
    TRY(put_names(data, a));
    TRY(put_tables(data, a));
    TRY(json_put(data, "recipe", recipe == NULL ? json_null() : json_incref(recipe)));
    *out = data;
    data = NULL;
out:
    json_decref(data);
    return status;
}
