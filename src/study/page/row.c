#include "study/page/row.h"

#include <math.h>
#include <stdio.h>

grail_status table_put(json_t *tables, const char *name, const char *const columns[], json_t **out)
{
    json_t *table = json_object();
    CHECK(json_put(tables, name, table));
    json_t *names = json_array();
    CHECK(json_put(table, "columns", names));
    for (size_t i = 0; columns[i] != NULL; i++) {
        CHECK(json_push(names, json_text(columns[i])));
    }
    *out = table;
    return json_put(table, "rows", json_array());
}

row row_begin(void)
{
    return (row){.values = json_array(), .status = GRAIL_OK};
}

static void add(row *r, json_t *value)
{
    if (r->status == GRAIL_OK) {
        r->status = json_push(r->values, value);
    } else {
        json_decref(value);
    }
}

void row_text(row *r, const char *text)
{
    add(r, text == NULL ? json_null() : json_text(text));
}

json_t *number_json(double value)
{
    const double largest_exact = 9007199254740992.0;
    return fabs(value) <= largest_exact && value == floor(value) ? json_integer((json_int_t)value)
                                                                 : json_real_or_null(value);
}

void row_number(row *r, double value)
{
    add(r, number_json(value));
}

void row_flag(row *r, bool value)
{
    add(r, json_boolean(value));
}

void row_estimate(row *r, const estimate *e)
{
    row_number(r, e->value);
    row_number(r, e->low);
    row_number(r, e->high);
}

json_t *variant_json(variant v)
{
    static const char *const forms[VARIANT_FORMS] = {"none",           "REPAIR", "grail",
                                                     "grail + REPAIR", "full",   "full + REPAIR"};
    const heal_kind heal = variant_heal(v);
    const variant form = variant_form(v);
    char label[64];
    snprintf(label, sizeof label, "%s%s%s%s",
             form == VARIANT_NONE && heal != HEAL_NONE ? "" : forms[form],
             form == VARIANT_NONE || heal == HEAL_NONE ? "" : " + ",
             heal == HEAL_NONE ? "" : "heal ", heal == HEAL_NONE ? "" : heal_kind_name(heal));
    return json_text(label);
}

void row_variant(row *r, variant v)
{
    add(r, variant_json(v));
}

grail_status row_end(row *r, json_t *table)
{
    json_t *values = r->values;
    r->values = NULL;
    if (r->status != GRAIL_OK) {
        json_decref(values);
        return r->status;
    }
    return json_push(json_object_get(table, "rows"), values);
}
