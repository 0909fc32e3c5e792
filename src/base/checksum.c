#include "base/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const char key[] = ",\"crc32\":\"";
static const char closing[] = "\"}";

enum {
    KEY = sizeof key - 1,
    DIGITS = CHECKSUM_TEXT_SIZE - 1,
    CLOSING = sizeof closing - 1,
    END = KEY + DIGITS + CLOSING
};

uint32_t checksum_crc32(const void *bytes, size_t size)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size);
}

const char *checksum_text(const void *bytes, size_t size, char out[CHECKSUM_TEXT_SIZE])
{
    snprintf(out, CHECKSUM_TEXT_SIZE, "%08" PRIx32, checksum_crc32(bytes, size));
    return out;
}

grail_status checksum_verify(const char *tensor, const char *place, const void *bytes, size_t size,
                             const char *recorded)
{
    char found[CHECKSUM_TEXT_SIZE];
    return strcmp(checksum_text(bytes, size, found), recorded) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT,
                           "tensor '%s' in '%s' is damaged: its checksum is %s, expected %s as "
                           "recorded when it was written",
                           tensor, place, found, recorded);
}

grail_status checksum_append_end(buffer *line, size_t begin)
{
    char digits[CHECKSUM_TEXT_SIZE];
    return buffer_format(line, "%s%s%s", key,
                         checksum_text(line->bytes + begin, line->size - begin, digits), closing);
}

checksum_end checksum_check_end(const char *line, size_t size, size_t begin, size_t *length)
{
    char digits[CHECKSUM_TEXT_SIZE];
    if (size < begin + END) {
        return CHECKSUM_ABSENT;
    }
    const char *end = line + size - END;
    if (memcmp(end, key, KEY) != 0 || memcmp(end + KEY + DIGITS, closing, CLOSING) != 0) {
        return CHECKSUM_ABSENT;
    }
    *length = size - END - begin;
    checksum_text(line + begin, *length, digits);
    return memcmp(end + KEY, digits, DIGITS) == 0 ? CHECKSUM_RIGHT : CHECKSUM_WRONG;
}
