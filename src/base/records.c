#include "base/records.h"

#include "base/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char before[] = "{\"record\":";
static const char between[] = ",\"crc32\":\"";
static const char after[] = "\"}";

enum {
    BEFORE = sizeof before - 1,
    BETWEEN = sizeof between - 1,
    DIGITS = 8,
    AFTER = sizeof after - 1,
    FRAME = BEFORE + BETWEEN + DIGITS + AFTER
};

static void digits_of(uint32_t crc, char digits[DIGITS + 1])
{
    snprintf(digits, DIGITS + 1, "%08" PRIx32, crc);
}

grail_status record_append_line(const json_t *record, buffer *out)
{
    grail_status status = GRAIL_OK;
    char digits[DIGITS + 1];
    TRY(buffer_append_string(out, before));
    const size_t begin = out->size;
    TRY(json_append_text(record, out));
    digits_of(checksum_crc32(out->bytes + begin, out->size - begin), digits);
    TRY(buffer_append_string(out, between));
    TRY(buffer_append_string(out, digits));
    TRY(buffer_append_string(out, after));
    TRY(buffer_append_string(out, "\n"));
out:
    return status;
}

/* Whether `size` bytes, without a line end, are a complete line; the record's text stands at BEFORE
 * and has size - FRAME bytes. */
static bool is_intact(const char *line, size_t size)
{
    char digits[DIGITS + 1];
    if (size < FRAME || memcmp(line, before, BEFORE) != 0) {
        return false;
    }
    const size_t length = size - FRAME;
    const char *tail = line + BEFORE + length;
    digits_of(checksum_crc32(line + BEFORE, length), digits);
    return memcmp(tail, between, BETWEEN) == 0 && memcmp(tail + BETWEEN, digits, DIGITS) == 0 &&
           memcmp(tail + BETWEEN + DIGITS, after, AFTER) == 0;
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
    if (!is_intact(line, size)) {
        return error_damaged(path, number);
    }
    const grail_status status = json_parse(path, line + BEFORE, size - FRAME, &record);
    return status == GRAIL_OK ? json_push(records, record) : status;
}

grail_status records_parse(const char *path, const void *text, size_t size, json_t **out)
{
    grail_status status = GRAIL_OK;
    const char *next = text;
    size_t left = size;
    size_t number = 1;
    json_t *records = json_array();
    if (records == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "%s: out of memory while reading records", path);
    }
    for (; left > 0; number++) {
        const char *end = memchr(next, '\n', left);
        if (end == NULL) {
            break;
        }
        const size_t length = (size_t)(end - next);
        TRY(parse_line(path, number, next, length, records));
        next += length + 1;
        left -= length + 1;
    }
    if (left > 0 && is_intact(next, left - 1)) {
        TRY(error_damaged(path, number)); /* a complete line whose line end was overwritten */
    }
    *out = records;
    records = NULL;
out:
    json_decref(records);
    return status;
}
