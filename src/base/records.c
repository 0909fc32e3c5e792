#include "base/records.h"

#include "base/checksum.h"

#include <string.h>

static const char before[] = "{\"record\":";

enum { BEFORE = sizeof before - 1 };

grail_status record_append_line(const json_t *record, buffer *out)
{
    CHECK(buffer_append_string(out, before));
    const size_t begin = out->size;
    CHECK(json_append_text(record, out));
    CHECK(checksum_append_end(out, begin));
    return buffer_append_string(out, "\n");
}

/* Whether `size` bytes, without a line end, are a complete line; the record's text stands at BEFORE
 * and has *length bytes. */
static bool is_intact(const char *line, size_t size, size_t *length)
{
    return size >= BEFORE && memcmp(line, before, BEFORE) == 0 &&
           checksum_check_end(line, size, BEFORE, length) == CHECKSUM_RIGHT;
}

static grail_status error_damaged(const char *path, size_t line)
{
    return error_set(GRAIL_ERROR_FORMAT,
                     "'%s' is damaged, or another version of grail wrote it: line %zu does not "
                     "match its checksum",
                     path, line);
}

static grail_status parse_line(const char *path, size_t number, const char *line, size_t size,
                               json_t *records)
{
    json_t *record = NULL;
    size_t length = 0;
    if (!is_intact(line, size, &length)) {
        return error_damaged(path, number);
    }
    CHECK(json_parse(path, line + BEFORE, length, &record));
    return json_push(records, record);
}

grail_status records_parse(const char *path, const void *text, size_t size, json_t **out)
{
    grail_status status = GRAIL_OK;
    const char *next = text;
    size_t left = size;
    size_t number = 1;
    size_t length = 0;
    json_t *records = json_array();
    if (records == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "%s: out of memory while reading records", path);
    }
    for (; left > 0; number++) {
        const char *end = memchr(next, '\n', left);
        if (end == NULL) {
            break;
        }
        length = (size_t)(end - next);
        TRY(parse_line(path, number, next, length, records));
        next += length + 1;
        left -= length + 1;
    }
    if (left > 0 && is_intact(next, left - 1, &length)) {
        TRY(error_damaged(path, number)); /* a complete line whose line end was overwritten */
    }
    *out = records;
    records = NULL;
out:
    json_decref(records);
    return status;
}
