#include "study/page/tsv.h"

#include "base/escape_append.h"

#include <string.h>

static grail_status append_value(const json_t *value, buffer *out)
{
    if (json_is_string(value)) {
        return escape_append(GRAIL_ESCAPE_LINE, json_string_value(value), json_string_length(value),
                             out);
    }
    return json_is_null(value) ? GRAIL_OK : json_append_scalar(value, out);
}

static grail_status append_row(const char *first, const json_t *values, buffer *out)
{
    CHECK(buffer_append_string(out, first));
    for (size_t i = 0; i < json_array_size(values); i++) {
        CHECK(buffer_append_string(out, "\t"));
        CHECK(append_value(json_array_get(values, i), out));
    }
    return buffer_append_string(out, "\n");
}

grail_status tsv_of_figure(const json_t *data, const json_t *figure, buffer *out)
{
    const char *kind = json_string_value(json_object_get(figure, "kind"));
    const char *name = json_string_value(json_object_get(figure, "table"));
    const json_t *table = json_object_get(json_object_get(data, "tables"), name);
    const json_t *rows = json_object_get(figure, "rows");
    CHECK(append_row("figure", json_object_get(table, "columns"), out));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const size_t at = (size_t)json_integer_value(json_array_get(rows, i));
        CHECK(append_row(kind, json_array_get(json_object_get(table, "rows"), at), out));
    }
    return GRAIL_OK;
}
