/* Looking at the values of a pickle. */
#include "format/torch/pickle_internal.h"

#include <string.h>

const pickle_value *pickle_root(const pickle *p)
{
    return p->root;
}

const char *pickle_kind_text(const pickle_value *value)
{
    static const char *const texts[] = {
        [PICKLE_NONE] = "None",           [PICKLE_BOOLEAN] = "a bool",
        [PICKLE_INTEGER] = "an int",      [PICKLE_LARGE_INTEGER] = "a large int",
        [PICKLE_REAL] = "a float",        [PICKLE_TEXT] = "a str",
        [PICKLE_BYTES] = "a byte string", [PICKLE_LIST] = "a list",
        [PICKLE_TUPLE] = "a tuple",       [PICKLE_SET] = "a set",
        [PICKLE_DICT] = "a dict",         [PICKLE_GLOBAL] = "a class or function",
        [PICKLE_CALL] = "an object",      [PICKLE_PERSISTENT] = "a reference to outside the pickle",
    };
    return value == NULL ? "nothing" : texts[value->kind];
}

bool pickle_has_items(const pickle_value *value)
{
    return value != NULL && (value->kind == PICKLE_LIST || value->kind == PICKLE_TUPLE ||
                             value->kind == PICKLE_SET || value->kind == PICKLE_DICT);
}

int64_t pickle_count(const pickle_value *value)
{
    if (!pickle_has_items(value)) {
        return 0;
    }
    return value->kind == PICKLE_DICT ? value->list.count / 2 : value->list.count;
}

const pickle_value *pickle_item(const pickle_value *value, int64_t i)
{
    if (i < 0 || i >= pickle_count(value)) {
        return NULL;
    }
    return value->list.items[value->kind == PICKLE_DICT ? 2 * i + 1 : i];
}

const pickle_value *pickle_key(const pickle_value *dict, int64_t i)
{
    const bool inside = dict != NULL && dict->kind == PICKLE_DICT && i >= 0;
    return inside && i < pickle_count(dict) ? dict->list.items[2 * i] : NULL;
}

/* Searches from the end, since the value set last under a key counts. */
const pickle_value *pickle_find(const pickle_value *dict, const char *key)
{
    for (int64_t i = pickle_count(dict) - 1; i >= 0; i--) {
        if (pickle_text_is(pickle_key(dict, i), key)) {
            return pickle_item(dict, i);
        }
    }
    return NULL;
}

bool pickle_integer(const pickle_value *value, int64_t *out)
{
    if (value == NULL || (value->kind != PICKLE_INTEGER && value->kind != PICKLE_BOOLEAN)) {
        return false;
    }
    *out = value->integer;
    return true;
}

bool pickle_text(const pickle_value *value, pickle_span *out)
{
    if (value == NULL || (value->kind != PICKLE_TEXT && value->kind != PICKLE_BYTES)) {
        return false;
    }
    *out = value->text;
    return true;
}

bool pickle_span_is(pickle_span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

bool pickle_text_is(const pickle_value *value, const char *text)
{
    pickle_span span = {0};
    return pickle_text(value, &span) && pickle_span_is(span, text);
}

bool pickle_is_global(const pickle_value *value, const char *module, const char *name)
{
    return value != NULL && value->kind == PICKLE_GLOBAL &&
           pickle_span_is(value->global->module, module) &&
           (name == NULL || pickle_span_is(value->global->name, name));
}

bool pickle_is_call(const pickle_value *value, const char *module, const char *name)
{
    return value != NULL && value->kind == PICKLE_CALL &&
           pickle_is_global(value->call.function, module, name);
}
