#include "format/chat/value.h"

#include "format/chat/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST_VALUE = 256 }; /* JSON is less deep (base/json_extent.h) */

bool chat_text_equal(chat_text a, chat_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
}

bool chat_text_is(chat_text a, const char *b)
{
    return chat_text_equal(a, (chat_text){b, strlen(b)});
}

size_t chat_text_length(chat_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++) {
        count += ((unsigned char)text.bytes[i] & 0xC0) == 0x80 ? 0 : 1;
    }
    return count;
}

grail_status chat_copy_text(chat_memory *m, const void *bytes, size_t size, chat_text *out)
{
    char *copy = NULL;
    CHECK(chat_work(m, size));
    CHECK(chat_take(m, &copy, size, 1));
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    *out = (chat_text){copy, size};
    return GRAIL_OK;
}

chat_value chat_boolean(bool truth)
{
    return (chat_value){.type = CHAT_BOOLEAN, .as.truth = truth};
}

chat_value chat_integer(int64_t integer)
{
    return (chat_value){.type = CHAT_INTEGER, .as.integer = integer};
}

chat_value chat_string(const char *bytes, size_t size)
{
    return (chat_value){.type = CHAT_STRING, .as.text = {bytes, size}};
}

/* -- lists and objects ------------------------------------------------------------------------- */

grail_status chat_new_list(chat_memory *m, chat_value *out)
{
    chat_list *list = NULL;
    CHECK(chat_take(m, &list, 1, sizeof *list));
    *out = (chat_value){.type = CHAT_LIST, .as.list = list};
    return GRAIL_OK;
}

grail_status chat_new_object(chat_memory *m, chat_type type, chat_value *out)
{
    chat_object *object = NULL;
    CHECK(chat_take(m, &object, 1, sizeof *object));
    *out = (chat_value){.type = type, .as.object = object};
    return GRAIL_OK;
}

/* Room for one more of `count` elements of an array that is *items. */
static grail_status grow(chat_memory *m, void *items, size_t count, size_t *capacity, size_t size)
{
    void *old = NULL;
    void *new = NULL;
    if (count < *capacity) {
        return GRAIL_OK;
    }
    const size_t larger = *capacity == 0 ? 4 : 2 * *capacity; /* below CHAT_MOST_BYTES */
    memcpy(&old, items, sizeof old);
    CHECK(chat_work(m, count * size));
    CHECK(chat_take(m, &new, larger, size));
    if (count > 0) {
        memcpy(new, old, count * size);
    }
    memcpy(items, &new, sizeof new);
    *capacity = larger;
    return GRAIL_OK;
}

grail_status chat_push(chat_memory *m, chat_list *list, chat_value value)
{
    CHECK(grow(m, &list->items, list->count, &list->capacity, sizeof list->items[0]));
    list->items[list->count++] = value;
    return GRAIL_OK;
}

/* The place of a member, or the number of members. */
static grail_status place_of(chat_memory *m, const chat_object *object, chat_text key, size_t *out)
{
    size_t i = 0;
    while (i < object->count && !chat_text_equal(object->members[i].key, key)) {
        i++;
    }
    *out = i;
    return chat_work(m, i + key.size);
}

grail_status chat_put(chat_memory *m, chat_object *object, chat_text key, chat_value value)
{
    size_t i = 0;
    CHECK(place_of(m, object, key, &i));
    CHECK(grow(m, &object->members, i, &object->capacity, sizeof object->members[0]));
    object->members[i] = (chat_member){key, value};
    object->count += i == object->count ? 1 : 0;
    return GRAIL_OK;
}

grail_status chat_find(chat_memory *m, const chat_object *object, chat_text key, chat_value *out)
{
    size_t i = 0;
    CHECK(place_of(m, object, key, &i));
    *out = i < object->count ? object->members[i].value : (chat_value){.type = CHAT_UNDEFINED};
    return GRAIL_OK;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static grail_status list_from_json(chat_memory *m, const json_t *json, chat_value *out)
{
    CHECK(chat_new_list(m, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        chat_value item = {0};
        CHECK(chat_from_json(m, json_array_get(json, i), &item));
        CHECK(chat_push(m, out->as.list, item));
    }
    return GRAIL_OK;
}

static grail_status object_from_json(chat_memory *m, const json_t *json, chat_value *out)
{
    const char *key = NULL;
    json_t *member = NULL;
    CHECK(chat_new_object(m, CHAT_OBJECT, out));
    json_object_foreach ((json_t *)(uintptr_t)json, key, member) {
        chat_value value = {0};
        CHECK(chat_from_json(m, member, &value));
        CHECK(chat_put(m, out->as.object, (chat_text){key, strlen(key)}, value));
    }
    return GRAIL_OK;
}

grail_status chat_from_json(chat_memory *m, const json_t *json, chat_value *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return object_from_json(m, json, out);
    case JSON_ARRAY:
        return list_from_json(m, json, out);
    case JSON_STRING:
        *out = chat_string(json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        *out = chat_integer(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = (chat_value){.type = CHAT_REAL, .as.real = json_real_value(json)};
        break;
    case JSON_NULL:
        *out = (chat_value){.type = CHAT_NONE};
        break;
    default:
        *out = chat_boolean(json_is_true(json));
    }
    return GRAIL_OK;
}

/* -- what values are --------------------------------------------------------------------------- */

bool chat_is_object(chat_value value)
{
    return value.type == CHAT_OBJECT || value.type == CHAT_NAMESPACE;
}

bool chat_truth(chat_value value)
{
    switch (value.type) {
    case CHAT_BOOLEAN:
        return value.as.truth;
    case CHAT_INTEGER:
        return value.as.integer != 0;
    case CHAT_REAL:
        return value.as.real != 0.0;
    case CHAT_STRING:
        return value.as.text.size > 0;
    case CHAT_LIST:
        return value.as.list->count > 0;
    case CHAT_OBJECT:
        return value.as.object->count > 0;
    default:
        return value.type == CHAT_NAMESPACE || value.type == CHAT_MACRO;
    }
}

const char *chat_kind_of(chat_value value)
{
    static const char *const kinds[] = {
        [CHAT_UNDEFINED] = "something that is not defined",
        [CHAT_NONE] = "none",
        [CHAT_BOOLEAN] = "a boolean",
        [CHAT_INTEGER] = "an integer",
        [CHAT_REAL] = "a number with a fraction",
        [CHAT_STRING] = "a text",
        [CHAT_LIST] = "a list",
        [CHAT_OBJECT] = "an object",
        [CHAT_NAMESPACE] = "a namespace",
        [CHAT_MACRO] = "a macro",
    };
    return kinds[value.type];
}

grail_status chat_print(chat_memory *m, chat_value value, chat_text *out)
{
    char digits[24];
    const char *word = "";
    switch (value.type) {
    case CHAT_STRING:
        *out = value.as.text;
        return GRAIL_OK;
    case CHAT_INTEGER:
        snprintf(digits, sizeof digits, "%" PRId64, value.as.integer);
        return chat_copy_text(m, digits, strlen(digits), out);
    case CHAT_BOOLEAN:
        word = value.as.truth ? "True" : "False";
        break;
    case CHAT_NONE:
        word = "None";
        break;
    case CHAT_UNDEFINED:
        break;
    default:
        return error_set(GRAIL_ERROR_UNSUPPORTED, "%s cannot be printed", chat_kind_of(value));
    }
    *out = (chat_text){word, strlen(word)};
    return GRAIL_OK;
}

/* -- equality ---------------------------------------------------------------------------------- */

static grail_status equal_at(chat_memory *m, chat_value a, chat_value b, int depth, bool *out);

static bool as_number(chat_value value, double *out)
{
    *out = value.type == CHAT_BOOLEAN   ? (value.as.truth ? 1.0 : 0.0)
           : value.type == CHAT_INTEGER ? (double)value.as.integer
                                        : value.as.real;
    return value.type == CHAT_BOOLEAN || value.type == CHAT_INTEGER || value.type == CHAT_REAL;
}

static grail_status equal_lists(chat_memory *m, const chat_list *a, const chat_list *b, int depth,
                                bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        CHECK(equal_at(m, a->items[i], b->items[i], depth, out));
    }
    return GRAIL_OK;
}

static grail_status equal_objects(chat_memory *m, const chat_object *a, const chat_object *b,
                                  int depth, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        chat_value other = {0};
        CHECK(chat_find(m, b, a->members[i].key, &other));
        CHECK(equal_at(m, a->members[i].value, other, depth, out));
    }
    return GRAIL_OK;
}

static grail_status equal_at(chat_memory *m, chat_value a, chat_value b, int depth, bool *out)
{
    double left = 0.0;
    double right = 0.0;
    CHECK(chat_work(m, CHAT_WORK_OF_STEP));
    if (depth == DEEPEST_VALUE) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "compares values more than %d deep",
                         DEEPEST_VALUE);
    }
    if (a.type == CHAT_INTEGER && b.type == CHAT_INTEGER) {
        *out = a.as.integer == b.as.integer;
    } else if (as_number(a, &left) && as_number(b, &right)) { /* True is 1 */
        *out = left == right;
    } else if (a.type != b.type) {
        *out = false;
    } else if (a.type == CHAT_STRING) {
        CHECK(chat_work(m, a.as.text.size));
        *out = chat_text_equal(a.as.text, b.as.text);
    } else if (a.type == CHAT_LIST) {
        return equal_lists(m, a.as.list, b.as.list, depth + 1, out);
    } else if (a.type == CHAT_OBJECT) {
        return equal_objects(m, a.as.object, b.as.object, depth + 1, out);
    } else {
        *out = a.type == CHAT_UNDEFINED || a.type == CHAT_NONE ||
               (a.type == CHAT_MACRO ? a.as.macro == b.as.macro : a.as.object == b.as.object);
    }
    return GRAIL_OK;
}

grail_status chat_equal(chat_memory *m, chat_value a, chat_value b, bool *out)
{
    return equal_at(m, a, b, 0, out);
}
