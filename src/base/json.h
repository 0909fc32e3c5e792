/* Reading and writing JSON through jansson, with messages that name the file and the key. */
#ifndef GRAIL_BASE_JSON_H
#define GRAIL_BASE_JSON_H

#include "base/buffer.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/** Parses UTF-8 text; duplicate keys are refused. `name` is used in messages. *out is owned. */
grail_status json_parse(const char *name, const void *text, size_t size,
                        json_t **out) GRAIL_MUST_CHECK;

/** Reads a file of at most `maximum` bytes. *out is owned: json_decref. */
grail_status json_read_file(const char *path, size_t maximum, json_t **out) GRAIL_MUST_CHECK;
/** Does the same for a file whose integers may be larger than any type: all numbers are reals. */
grail_status json_read_file_of_reals(const char *path, size_t maximum,
                                     json_t **out) GRAIL_MUST_CHECK;
typedef grail_status (*json_reader)(const char *path, size_t maximum, json_t **out);
/** Reads the file of a directory with one of these; *out stays as it is where there is none. */
grail_status json_find_file(const char *directory, const char *name, size_t maximum,
                            json_reader read, json_t **out) GRAIL_MUST_CHECK;

/** Appends compact JSON, keys in insertion order. The text of this function and of the next one
 * holds no control characters and no direction marks (GRAIL_ESCAPE_JSON), so it can be shown on a
 * terminal. */
grail_status json_append_text(const json_t *value, buffer *out) GRAIL_MUST_CHECK;

/** Does the same with indentation, for people. */
grail_status json_append_indented(const json_t *value, buffer *out) GRAIL_MUST_CHECK;

/** A number, or null where it is not finite. */
json_t *json_real_or_null(double value);
/** The number under a key, or NaN. */
double json_real_or_nan(const json_t *object, const char *key);

/* Typed access. `name` names the document in messages. A missing key or null gives the fallback;
 * a value of another type is GRAIL_ERROR_FORMAT. The `_required` forms refuse a missing key. */
grail_status json_get_integer(const char *name, const json_t *object, const char *key,
                              int64_t fallback, int64_t *out) GRAIL_MUST_CHECK;
grail_status json_require_integer(const char *name, const json_t *object, const char *key,
                                  int64_t *out) GRAIL_MUST_CHECK;
grail_status json_get_real(const char *name, const json_t *object, const char *key, double fallback,
                           double *out) GRAIL_MUST_CHECK;
grail_status json_get_boolean(const char *name, const json_t *object, const char *key,
                              bool fallback, bool *out) GRAIL_MUST_CHECK;
/** *out is borrowed from `object` (or is `fallback`). */
grail_status json_get_string(const char *name, const json_t *object, const char *key,
                             const char *fallback, const char **out) GRAIL_MUST_CHECK;

/** Refuses a value that is not an object, and keys that are not in `known` (which ends with NULL).
 */
grail_status json_check_keys(const char *where, const json_t *object,
                             const char *const known[]) GRAIL_MUST_CHECK;

/**
 * Makes a JSON string from any bytes, such as a path, escaped by GRAIL_ESCAPE_NAME. NULL means that
 * memory ran out; json_put and json_push report that. All strings are made with this function,
 * because jansson's own functions accept only UTF-8 and report other bytes in the same way as lack
 * of memory.
 */
json_t *json_text(const char *bytes);

/** object[key] = value, taking the reference of `value` even on failure. */
grail_status json_put(json_t *object, const char *key, json_t *value) GRAIL_MUST_CHECK;
/** Does the same with a key of any bytes, such as a file name, escaped by GRAIL_ESCAPE_NAME. */
grail_status json_put_name(json_t *object, const char *name, json_t *value) GRAIL_MUST_CHECK;
/** Appends, taking the reference of `value` even on failure. */
grail_status json_push(json_t *array, json_t *value) GRAIL_MUST_CHECK;

/* Measures how much a JSON text holds before a tree is built from it: the tree of "[{},{},{}]"
 * takes seventy times the bytes of the text. */

/* Limits for every JSON text. They keep the tree at about twenty times the bytes of the text, plus
 * a fixed allowance. The densest that grail reads are tokenizers of pairs such as ["a","b"], and
 * the shapes in headers of weights. The table in docs/formats.md lists the limits. */
enum {
    JSON_DEEPEST = 200,
    JSON_FREE_PARTS = 1 << 16, /* allowed of each sort in any text; each further one needs as many
                                  bytes of text as stated below */
    JSON_BYTES_OF_VALUE = 4,
    JSON_BYTES_OF_ARRAY = 8,
    JSON_BYTES_OF_OBJECT = 24
};

/** Counts what stands outside of strings. The counts of malformed text mean little. */
typedef struct json_extent {
    int64_t depth;   /* of the deepest object or array; 0 for a plain value */
    int64_t members; /* of the outermost one, at most: the commas in it */
    int64_t values;  /* at most: all commas */
    int64_t arrays;
    int64_t objects;
} json_extent;

json_extent json_measure(const void *text, size_t size);

/** Refuses a text beyond the limits; `name` is used in messages. */
grail_status json_check_extent(const char *name, const void *text, size_t size) GRAIL_MUST_CHECK;

#endif
