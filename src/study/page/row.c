#include "study/page/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* Appends a part of a label. */
static void join(char *label, size_t size, const char *part)
{
    const size_t used = strlen(label);
    snprintf(label + used, size - used, "%s%s", used > 0 ? " + " : "", part);
}

json_t *variant_json(variant v)
{
    const bool compensated =
        strcmp(variant_compensation(v), variant_compensation(VARIANT_NONE)) != 0;
    const heal_kind heal = variant_heal(v);
    char label[64] = "";
    if (compensated) {
        join(label, sizeof label, variant_compensation(v));
    }
    if (variant_repairs(v)) {
        join(label, sizeof label, "REPAIR");
    }
    if (heal != HEAL_NONE) {
        join(label, sizeof label, "heal ");
        strncat(label, heal_kind_name(heal), sizeof label - strlen(label) - 1);
    }
    return json_text(label[0] != 0 ? label : variant_compensation(v));
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
