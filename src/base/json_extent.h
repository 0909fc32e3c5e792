/* Measures how much a JSON text holds before a tree is built from it: the tree of "[{},{},{}]"
 * takes seventy times the bytes of the text. */
#ifndef GRAIL_BASE_JSON_EXTENT_H
#define GRAIL_BASE_JSON_EXTENT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

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
