#include "base/json_extent.h"

#include <stdbool.h>

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
