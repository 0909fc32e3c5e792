#include "base/escape.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static bool is_hexadecimal(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Whether the text begins with a backslash, `letter` and `digits` hexadecimal digits. */
static bool begins_escape(const char *text, size_t left, char letter, size_t digits)
{
    if (left < 2 + digits || text[0] != '\\' || text[1] != letter) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        if (!is_hexadecimal(text[2 + i])) {
            return false;
        }
    }
    return true;
}

/* The length of the escape that the text begins with, such as \x1b; 1 when there is none. */
static size_t escape_length(const char *text, size_t left)
{
    if (begins_escape(text, left, 'x', 2)) {
        return 4;
    }
    if (begins_escape(text, left, 'u', 4)) {
        return 6;
    }
    return left >= 2 && text[0] == '\\' && strchr("nrt", text[1]) != NULL ? 2 : 1;
}

/* The code point of a well-formed sequence. For four bytes the result is only some value that is
 * not a control character or a mark. */
static unsigned code_point(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (length) {
    case 1:
        return s[0];
    case 2:
        return (s[0] & 0x1fU) << 6 | (s[1] & 0x3fU);
    case 3:
        return (s[0] & 0x0fU) << 12 | (s[1] & 0x3fU) << 6 | (s[2] & 0x3fU);
    default:
        return 0x10000;
    }
}

/* Whether a code point is DEL or in the second set of control characters, a separator of lines or
 * paragraphs, or a mark that changes the direction of text. */
static bool is_wide_control(unsigned code)
{
    return (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

static escape_unit unit_of(const char *bytes, size_t size)
{
    escape_unit unit = {.size = size, .taken = size};
    memcpy(unit.bytes, bytes, size);
    return unit;
}

static escape_unit instead_of(size_t taken, const char *text)
{
    escape_unit unit = unit_of(text, strlen(text));
    unit.taken = taken;
    return unit;
}

static escape_unit escaped_byte(const char *text)
{
    escape_unit unit = {.size = 4, .taken = 1};
    snprintf(unit.bytes, sizeof unit.bytes, "\\x%02x", (unsigned)(unsigned char)text[0]);
    return unit;
}

static escape_unit escaped_point(unsigned code, size_t taken)
{
    escape_unit unit = {.size = 6, .taken = taken};
    snprintf(unit.bytes, sizeof unit.bytes, "\\u%04x", code & 0xffffU);
    return unit;
}

escape_unit escape_line_unit(const char *text, size_t left)
{
    const size_t length = utf8_sequence_length(text, left);
    const unsigned code = length == 0 ? 0 : code_point(text, length);
    switch (code) {
    case '\n':
        return instead_of(1, "\\n");
    case '\r':
        return instead_of(1, "\\r");
    case '\t':
        return instead_of(1, "\\t");
    case '\\':
        return unit_of(text, escape_length(text, left));
    default:
        break;
    }
    if (code < 0x20 || code == 0x7f) {
        return escaped_byte(text);
    }
    return is_wide_control(code) ? escaped_point(code, length) : unit_of(text, length);
}

/* If `doubles`, every backslash of this text is doubled. */
static escape_unit name_unit(const char *text, size_t left, bool doubles)
{
    const size_t length = utf8_sequence_length(text, left);
    if (length == 0) {
        return escaped_byte(text);
    }
    return doubles && text[0] == '\\' ? instead_of(1, "\\\\") : unit_of(text, length);
}

static escape_unit json_unit(const char *text, size_t left)
{
    const size_t length = utf8_sequence_length(text, left);
    const unsigned code = length == 0 ? 0 : code_point(text, length);
    return is_wide_control(code) ? escaped_point(code, length)
                                 : unit_of(text, length == 0 ? 1 : length);
}

bool escape_doubles_backslashes(grail_escape_use use, const char *text, size_t size)
{
    return use == GRAIL_ESCAPE_NAME && utf8_valid_prefix(text, size) < size;
}

escape_unit escape_next_unit(grail_escape_use use, const char *text, size_t left, bool doubles)
{
    switch (use) {
    case GRAIL_ESCAPE_NAME:
        return name_unit(text, left, doubles);
    case GRAIL_ESCAPE_JSON:
        return json_unit(text, left);
    default:
        return escape_line_unit(text, left);
    }
}

size_t grail_escape(grail_escape_use use, const char *text, char *out, size_t size)
{
    const size_t length = strlen(text);
    const bool doubles = escape_doubles_backslashes(use, text, length);
    size_t needed = 0;
    size_t written = 0;
    escape_unit unit = {0};
    for (size_t at = 0; at < length; at += unit.taken) {
        unit = escape_next_unit(use, text + at, length - at, doubles);
        if (written == needed && needed + unit.size < size) { /* nothing was left out before */
            memcpy(out + written, unit.bytes, unit.size);
            written += unit.size;
        }
        needed += unit.size;
    }
    if (size > 0) {
        out[written] = 0;
    }
    return needed;
}
