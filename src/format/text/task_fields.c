#include "format/text/task_fields.h"

#include "format/text/task_documents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FOUND_SIZE = 160 };

static const char *type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null";
    }
}

/* Writes what a value is, as messages show it. */
static void describe(const json_t *value, char text[FOUND_SIZE])
{
    if (value == NULL) {
        snprintf(text, FOUND_SIZE, "nothing");
    } else if (json_is_string(value)) {
        snprintf(text, FOUND_SIZE, "\"%.120s\"", json_string_value(value));
    } else if (json_is_integer(value)) {
        snprintf(text, FOUND_SIZE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        snprintf(text, FOUND_SIZE, "%s", type_of(value));
    }
}

static grail_status unexpected(const char *key, const char *expected, const json_t *value)
{
    char found[FOUND_SIZE];
    describe(value, found);
    return error_set(GRAIL_ERROR_FORMAT, "\"%s\": expected %s, found %s", key, expected, found);
}

grail_status task_text(const json_t *object, const char *key, const char **out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) {
        return unexpected(key, "a string", value);
    }
    *out = json_string_value(value);
    return GRAIL_OK;
}

grail_status task_object(const json_t *object, const char *key, const json_t **out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_object(value)) {
        return unexpected(key, "an object", value);
    }
    *out = value;
    return GRAIL_OK;
}

/* The number has at most 18 digits. */
static bool read_digits(const char *text, int64_t *out)
{
    const size_t length = strspn(text, "0123456789");
    int64_t number = 0;
    if (length == 0 || length > 18 || text[length] != 0) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        number = 10 * number + (text[i] - '0');
    }
    *out = number;
    return true;
}

static bool read_number(const json_t *value, int64_t *out)
{
    if (json_is_string(value)) {
        return read_digits(json_string_value(value), out);
    }
    *out = json_is_boolean(value) ? json_is_true(value) : (int64_t)json_integer_value(value);
    return json_is_boolean(value) || json_is_integer(value);
}

/* Datasets write these in place of answers that they keep secret. */
static bool is_withheld(const json_t *value)
{
    return (json_is_string(value) && json_string_value(value)[0] == 0) ||
           (json_is_integer(value) && json_integer_value(value) == -1);
}

grail_status task_number(const json_t *object, const char *key, int64_t least, int64_t most,
                         int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    int64_t number = 0;
    if (!read_number(value, &number) || number < least || number > most) {
        char expected[80];
        snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, least, most);
        const grail_status status = unexpected(key, expected, value);
        if (is_withheld(value)) {
            error_append("; the answers of this split are not public, take another");
        }
        return status;
    }
    *out = number;
    return GRAIL_OK;
}

grail_status task_texts(const json_t *object, const char *key, const json_t **out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_array(value)) {
        return unexpected(key, "an array of strings", value);
    }
    const size_t count = json_array_size(value);
    if (count < 2 || count > TASK_MOST_CHOICES) {
        return error_set(GRAIL_ERROR_FORMAT, "\"%s\": expected 2 to %d strings, found %zu", key,
                         TASK_MOST_CHOICES, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_array_get(value, i))) {
            return unexpected(key, "an array of strings", json_array_get(value, i));
        }
    }
    *out = value;
    return GRAIL_OK;
}

grail_status task_label(const json_t *object, const char *key, const json_t *labels, int64_t *out)
{
    const char *wanted = NULL;
    CHECK(task_text(object, key, &wanted));
    wanted += strspn(wanted, " \t\r\n");
    for (size_t i = 0; i < json_array_size(labels); i++) {
        if (strcmp(json_string_value(json_array_get(labels, i)), wanted) == 0) {
            *out = (int64_t)i;
            return GRAIL_OK;
        }
    }
    const grail_status status = unexpected(key, "one of the labels", json_object_get(object, key));
    for (size_t i = 0; i < json_array_size(labels); i++) {
        error_append("%s %.40s", i == 0 ? "; they are" : ",",
                     json_string_value(json_array_get(labels, i)));
    }
    return status;
}
