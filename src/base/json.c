#include "base/json.h"

#include "base/escape_append.h"
#include "base/file.h"
#include "base/names.h"
#include "base/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* jansson 2.14 sets its out-of-memory code in few places. Most failed allocations leave no text; a
 * failed allocation for the bytes of a string leaves a token that is not a string. Malformed
 * strings have texts of their own, so these two complaints at a closing quote mark can only mean
 * lack of memory. */
static bool is_out_of_memory(const json_error_t *error, const char *text, size_t size)
{
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == 0) {
        return true;
    }
    const size_t end = error->position > 0 ? (size_t)error->position : 0; /* of the bad token */
    return end > 0 && end <= size && text[end - 1] == '"' &&
           (starts_with(error->text, "invalid token") ||
            starts_with(error->text, "string or '}' expected"));
}

static grail_status parse(const char *name, const void *text, size_t size, size_t flags,
                          json_t **out)
{
    json_error_t error = {0};
    CHECK(json_check_extent(name, text, size));
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &error);
    if (value == NULL) {
        if (is_out_of_memory(&error, text, size)) {
            return error_set(GRAIL_ERROR_MEMORY, "%s: out of memory while parsing JSON", name);
        }
        return error_set(GRAIL_ERROR_FORMAT, "%s: not valid JSON: %s (line %d, column %d)", name,
                         error.text, error.line, error.column);
    }
    *out = value;
    return GRAIL_OK;
}

grail_status json_parse(const char *name, const void *text, size_t size, json_t **out)
{
    return parse(name, text, size, 0, out);
}

static grail_status read_file(const char *path, size_t maximum, size_t flags, json_t **out)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    TRY(file_read(path, maximum, &text));
    TRY(parse(path, text.bytes, text.size, flags, out));
out:
    buffer_fini(&text);
    return status;
}

grail_status json_read_file(const char *path, size_t maximum, json_t **out)
{
    return read_file(path, maximum, 0, out);
}

grail_status json_read_file_of_reals(const char *path, size_t maximum, json_t **out)
{
    return read_file(path, maximum, JSON_DECODE_INT_AS_REAL, out);
}

grail_status json_find_file(const char *directory, const char *name, size_t maximum,
                            json_reader read, json_t **out)
{
    char *path = NULL;
    CHECK(path_find(&path, directory, name));
    const grail_status status = path == NULL ? GRAIL_OK : read(path, maximum, out);
    memory_free(path);
    return status;
}

typedef struct text_sink {
    buffer *out;
    grail_status status;
} text_sink;

/* Escapes, for example as \\u009b, what jansson leaves in strings and what would control a
 * terminal. A piece never ends inside a character: jansson passes the text between two of its own
 * escapes. */
static int append_piece(const char *bytes, size_t size, void *context)
{
    text_sink *sink = context;
    sink->status = escape_append(GRAIL_ESCAPE_JSON, bytes, size, sink->out);
    return sink->status == GRAIL_OK ? 0 : -1;
}

static grail_status append_text(const json_t *value, size_t flags, buffer *out)
{
    text_sink sink = {.out = out};
    if (json_dump_callback(value, append_piece, &sink, flags) == 0) {
        return GRAIL_OK;
    }
    return sink.status != GRAIL_OK
               ? sink.status
               : error_set(GRAIL_ERROR_MEMORY, "out of memory while writing JSON");
}

grail_status json_append_text(const json_t *value, buffer *out)
{
    return append_text(value, JSON_COMPACT | JSON_REAL_PRECISION(17), out);
}

grail_status json_append_indented(const json_t *value, buffer *out)
{
    /* 16 digits keep a decimal such as 1e-06 as it was written; 17 would show its binary value */
    return append_text(value, JSON_INDENT(2) | JSON_REAL_PRECISION(16), out);
}

static grail_status wrong_type(const char *name, const char *key, const char *expected)
{
    return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not %s", name, key, expected);
}

/* NULL for a missing key and for null: configurations use both for the same thing. */
static const json_t *present(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

grail_status json_get_integer(const char *name, const json_t *object, const char *key,
                              int64_t fallback, int64_t *out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_integer(value)) {
        return wrong_type(name, key, "an integer");
    }
    *out = value == NULL ? fallback : (int64_t)json_integer_value(value);
    return GRAIL_OK;
}

grail_status json_require_integer(const char *name, const json_t *object, const char *key,
                                  int64_t *out)
{
    if (present(object, key) == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", name, key);
    }
    return json_get_integer(name, object, key, 0, out);
}

grail_status json_get_real(const char *name, const json_t *object, const char *key, double fallback,
                           double *out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_number(value)) {
        return wrong_type(name, key, "a number");
    }
    *out = value == NULL ? fallback : json_number_value(value);
    return GRAIL_OK;
}

grail_status json_get_boolean(const char *name, const json_t *object, const char *key,
                              bool fallback, bool *out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_boolean(value)) {
        return wrong_type(name, key, "true or false");
    }
    *out = value == NULL ? fallback : json_is_true(value);
    return GRAIL_OK;
}

grail_status json_get_string(const char *name, const json_t *object, const char *key,
                             const char *fallback, const char **out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_string(value)) {
        return wrong_type(name, key, "a string");
    }
    *out = value == NULL ? fallback : json_string_value(value);
    return GRAIL_OK;
}

grail_status json_check_keys(const char *where, const json_t *object, const char *const known[])
{
    if (!json_is_object(object)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: not a JSON object", where);
    }
    const char *key = NULL;
    const json_t *value = NULL;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) { /* the macro only reads it */
        int k = 0;
        while (known[k] != NULL && strcmp(known[k], key) != 0) {
            k++;
        }
        if (known[k] == NULL) {
            const grail_status status = error_set(
                GRAIL_ERROR_FORMAT, "%s: unknown key \"%s\"; the known keys are", where, key);
            error_append_known(key, known);
            return status;
        }
    }
    return GRAIL_OK;
}

json_t *json_text(const char *bytes)
{
    json_t *value = NULL;
    buffer name = {0};
    buffer_init(&name, SIZE_MAX / 4);
    if (escape_append(GRAIL_ESCAPE_NAME, bytes, strlen(bytes), &name) == GRAIL_OK) {
        value = json_stringn((const char *)name.bytes, name.size);
    }
    buffer_fini(&name);
    return value;
}

grail_status json_put(json_t *object, const char *key, json_t *value)
{
    if (value != NULL && utf8_valid_prefix(key, strlen(key)) < strlen(key)) {
        json_decref(value);
        return error_set(GRAIL_ERROR_FORMAT, "the name '%s' is not UTF-8, which JSON requires",
                         key);
    }
    if (value == NULL || json_object_set_new(object, key, value) != 0) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while building JSON (\"%s\")", key);
    }
    return GRAIL_OK;
}

grail_status json_put_name(json_t *object, const char *name, json_t *value)
{
    json_t *key = json_text(name);
    if (key == NULL) {
        json_decref(value);
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while building JSON (\"%s\")", name);
    }
    const grail_status status = json_put(object, json_string_value(key), value);
    json_decref(key);
    return status;
}

grail_status json_push(json_t *array, json_t *value)
{
    if (value == NULL || json_array_append_new(array, value) != 0) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while building a JSON array");
    }
    return GRAIL_OK;
}

json_t *json_real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

double json_real_or_nan(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* What one byte outside of strings adds. */
static void count_byte(unsigned char c, int64_t *depth, json_extent *extent)
{
    switch (c) {
    case '{':
    case '[':
        extent->objects += c == '{' ? 1 : 0;
        extent->arrays += c == '[' ? 1 : 0;
        *depth += 1;
        extent->depth = *depth > extent->depth ? *depth : extent->depth;
        break;
    case '}':
    case ']':
        *depth -= 1;
        break;
    case ',':
        extent->members += *depth == 1 ? 1 : 0;
        extent->values++;
        break;
    default:
        break;
    }
}

json_extent json_measure(const void *text, size_t size)
{
    const unsigned char *bytes = text;
    json_extent extent = {0};
    int64_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = bytes[i];
        if (in_string) {
            i += c == '\\' ? 1 : 0;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else {
            count_byte(c, &depth, &extent);
        }
    }
    return extent;
}

static bool is_crowded(int64_t count, size_t size, int64_t bytes_of_one)
{
    return count > JSON_FREE_PARTS && (count - JSON_FREE_PARTS) > (int64_t)size / bytes_of_one;
}

grail_status json_check_extent(const char *name, const void *text, size_t size)
{
    const json_extent extent = json_measure(text, size);
    if (extent.depth > JSON_DEEPEST) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the JSON nests deeper than %d levels", name,
                         JSON_DEEPEST);
    }
    if (is_crowded(extent.values, size, JSON_BYTES_OF_VALUE) ||
        is_crowded(extent.arrays, size, JSON_BYTES_OF_ARRAY) ||
        is_crowded(extent.objects, size, JSON_BYTES_OF_OBJECT)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: %zu bytes of JSON hold %lld values, %lld arrays and %lld objects, "
                         "more than grail accepts in JSON of this size",
                         name, size, (long long)extent.values, (long long)extent.arrays,
                         (long long)extent.objects);
    }
    return GRAIL_OK;
}
