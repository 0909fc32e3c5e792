#include "study/results/line_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *field_number(double value, field_form form)
{
    char text[40];
    if (!isfinite(value)) {
        return json_null();
    }
    if (form == FORM_COUNT) {
        return json_integer((json_int_t)value);
    }
    if (form == FORM_EXACT) {
        return json_real(value);
    }
    snprintf(text, sizeof text, "%.6g", value);
    return json_real(strtod(text, NULL));
}

static double value_of(const field *f, const void *from)
{
    double value = 0.0;
    memcpy(&value, (const unsigned char *)from + f->offset, sizeof value);
    return value;
}

grail_status write_fields(const field *fields, const void *from, json_t *object)
{
    for (const field *f = fields; f->key != NULL; f++) {
        CHECK(json_put(object, f->key, field_number(value_of(f, from), f->form)));
    }
    return GRAIL_OK;
}

grail_status write_measured(const field *fields, const void *from, json_t *object)
{
    for (const field *f = fields; f->key != NULL; f++) {
        const double value = value_of(f, from);
        if (isfinite(value)) {
            CHECK(json_put(object, f->key, field_number(value, f->form)));
        }
    }
    return GRAIL_OK;
}

grail_status read_fields(const char *where, const json_t *object, const field *fields, void *to)
{
    for (const field *f = fields; f->key != NULL; f++) {
        double value = NOT_MEASURED;
        CHECK(json_get_real(where, object, f->key, NOT_MEASURED, &value));
        if (value < f->least || value > f->most) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %g, expected %g to %g", where,
                             f->key, value, f->least, f->most);
        }
        memcpy((unsigned char *)to + f->offset, &value, sizeof value);
    }
    return GRAIL_OK;
}

line_measures line_not_measured(void)
{
    union {
        line_measures measures;
        double values[sizeof(line_measures) / sizeof(double)];
    } all;
    for (size_t i = 0; i < sizeof all.values / sizeof all.values[0]; i++) {
        all.values[i] = NOT_MEASURED;
    }
    return all.measures;
}
