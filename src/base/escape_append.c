#include "base/escape_append.h"

#include "base/escape.h"

#include <string.h>

grail_status escape_append(grail_escape_use use, const void *text, size_t size, buffer *out)
{
    const char *bytes = text;
    const bool doubles = escape_doubles_backslashes(use, bytes, size);
    size_t plain = 0; /* start of the bytes that stay unchanged */
    escape_unit unit = {0};
    CHECK(buffer_reserve(out, size));
    for (size_t at = 0; at < size; at += unit.taken) {
        unit = escape_next_unit(use, bytes + at, size - at, doubles);
        if (unit.size != unit.taken || memcmp(unit.bytes, bytes + at, unit.size) != 0) {
            CHECK(buffer_append(out, bytes + plain, at - plain));
            CHECK(buffer_append(out, unit.bytes, unit.size));
            plain = at + unit.taken;
        }
    }
    return buffer_append(out, bytes + plain, size - plain);
}
