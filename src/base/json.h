/* Reading and writing JSON through jansson, with messages that name the file and the key. */
#ifndef GRAIL_BASE_JSON_H
#define GRAIL_BASE_JSON_H

#include "base/buffer.h"

#include <jansson.h>

/** Parses UTF-8 text; duplicate keys are refused. `name` is used in messages. *out is owned. */
grail_status json_parse(const char *name, const void *text, size_t size,
                        json_t **out) GRAIL_MUST_CHECK;

/** Reads a file of at most `maximum` bytes. *out is owned: json_decref. */
grail_status json_read_file(const char *path, size_t maximum, json_t **out) GRAIL_MUST_CHECK;

/** Appends compact JSON, keys in insertion order. Like the other two it holds no control characters
 * and no marks of direction (GRAIL_ESCAPE_JSON): it may be shown on a terminal. */
grail_status json_append_text(const json_t *value, buffer *out) GRAIL_MUST_CHECK;

/** The same as one line, with numbers in 15 digits: those that people write stay as they are, and
 * every number reads back within 1e-15 of itself. */
grail_status json_append_line(const json_t *value, buffer *out) GRAIL_MUST_CHECK;

/** The same, indented, for people. */
grail_status json_append_indented(const json_t *value, buffer *out) GRAIL_MUST_CHECK;

/** Writes indented JSON, keys in insertion order, as a file that appears when it is complete. */
grail_status json_write_file(const char *path, const json_t *value) GRAIL_MUST_CHECK;

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

/** Refuses what is no object, and keys that are not among `known` (NULL ends them). */
grail_status json_check_keys(const char *where, const json_t *object,
                             const char *const known[]) GRAIL_MUST_CHECK;

/**
 * A string of any bytes, such as a path: GRAIL_ESCAPE_NAME of them. NULL says that memory ran out,
 * which json_put and json_push report. Strings are made by this alone, since jansson's own
 * functions take no other bytes than UTF-8 and report them as they report lack of memory.
 */
json_t *json_text(const char *bytes);

/** object[key] = value, taking the reference of `value` even on failure. */
grail_status json_put(json_t *object, const char *key, json_t *value) GRAIL_MUST_CHECK;
/** The same with a key of any bytes, such as the name of a file: GRAIL_ESCAPE_NAME of them. */
grail_status json_put_name(json_t *object, const char *name, json_t *value) GRAIL_MUST_CHECK;
/** Appends, taking the reference of `value` even on failure. */
grail_status json_push(json_t *array, json_t *value) GRAIL_MUST_CHECK;

#endif
