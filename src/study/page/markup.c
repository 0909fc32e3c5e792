#include "study/page/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"
#define ELLIPSIS "\xE2\x80\xA6"
#define EN_DASH "\xE2\x80\x93"

enum { MOST_DECIMALS = 6 };

void markup_init(markup *m, size_t maximum)
{
    *m = (markup){.status = GRAIL_OK};
    buffer_init(&m->bytes, maximum);
}

void markup_fini(markup *m)
{
    buffer_fini(&m->bytes);
}

grail_status markup_status(const markup *m)
{
    return m->status;
}

void markup_bytes(markup *m, const void *bytes, size_t size)
{
    if (m->status == GRAIL_OK) {
        m->status = buffer_append(&m->bytes, bytes, size);
    }
}

void markup_raw(markup *m, const char *text)
{
    markup_bytes(m, text, strlen(text));
}

void markup_format(markup *m, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text) {
        if (m->status == GRAIL_OK) {
            m->status = error_set(GRAIL_ERROR_INTERNAL, "markup of %d bytes at once", length);
        }
        return;
    }
    markup_bytes(m, text, (size_t)length);
}

void markup_append(markup *m, const markup *other)
{
    if (m->status == GRAIL_OK && other->status != GRAIL_OK) {
        m->status = other->status;
    }
    markup_bytes(m, other->bytes.bytes, other->bytes.size);
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Number of bytes of the character at the beginning of a text when markup must not hold it, else 0.
 * These are control characters, U+0080 to U+009F (C2 80 to 9F) included; separators of lines and
 * paragraphs and marks that turn the direction of all following text, U+2028 to U+202E (E2 80 A8 to
 * AE) and U+2066 to U+2069 (E2 81 A6 to A9); U+FFFE and U+FFFF (EF BF BE and BF). */
static size_t control_length(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned char code = bytes[0];
    if (code < 0x80) {
        return (code < 0x20 && code != '\t' && code != '\n') || code == 0x7F ? 1 : 0;
    }
    if (code == 0xC2) {
        return bytes[1] >= 0x80 && bytes[1] <= 0x9F ? 2 : 0;
    }
    if (code == 0xEF) {
        return bytes[1] == 0xBF && bytes[2] >= 0xBE ? 3 : 0;
    }
    return code == 0xE2 && ((bytes[1] == 0x80 && bytes[2] >= 0xA8 && bytes[2] <= 0xAE) ||
                            (bytes[1] == 0x81 && bytes[2] >= 0xA6 && bytes[2] <= 0xA9))
               ? 3
               : 0;
}

/* Bytes up to `end`. */
static void append_text(markup *m, const char *text, const char *end)
{
    const char *plain = text;
    while (text < end) {
        const size_t control = control_length(text);
        const size_t taken = control > 0 ? control : 1;
        const char *instead = control > 0 ? REPLACEMENT : entity(*text);
        if (instead != NULL) {
            markup_bytes(m, plain, (size_t)(text - plain));
            markup_raw(m, instead);
            plain = text + taken;
        }
        text += taken;
    }
    markup_bytes(m, plain, (size_t)(end - plain));
}

void markup_text(markup *m, const char *text)
{
    append_text(m, text, text + strlen(text));
}

void markup_part(markup *m, const char *text, size_t size)
{
    append_text(m, text, text + size);
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

static size_t count_characters(const char *text)
{
    size_t count = 0;
    for (; *text != 0; text++) {
        count += begins_character(*text) ? 1 : 0;
    }
    return count;
}

/* Where character `index` begins, or the end of the text. */
static const char *character_at(const char *text, size_t index)
{
    size_t seen = 0;
    for (; *text != 0; text++) {
        if (begins_character(*text) && seen++ == index) {
            break;
        }
    }
    return text;
}

void markup_start_of(markup *m, const char *text, size_t most)
{
    if (count_characters(text) <= most) {
        markup_text(m, text);
    } else {
        append_text(m, text, character_at(text, most - 1));
        markup_raw(m, ELLIPSIS);
    }
}

/* Digits through integers: printf of a double would follow the locale's decimal mark. */
static void append_fixed(markup *m, double value, int decimals)
{
    static const long long powers[MOST_DECIMALS + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    const long long scaled = llround(fabs(value) * (double)powers[decimals]);
    if (value < 0.0 && scaled != 0) {
        markup_raw(m, "-");
    }
    markup_format(m, "%lld", scaled / powers[decimals]);
    if (decimals > 0) {
        markup_format(m, ".%0*lld", decimals, scaled % powers[decimals]);
    }
}

void markup_number(markup *m, double value, int decimals)
{
    if (!isfinite(value)) {
        markup_raw(m, EN_DASH);
    } else if (fabs(value) < 1e12) {
        append_fixed(m, value, decimals);
    } else {
        const int exponent = (int)floor(log10(fabs(value)));
        append_fixed(m, value / pow(10.0, exponent), 1);
        markup_format(m, "e%d", exponent);
    }
}

void markup_percent(markup *m, double fraction)
{
    markup_number(m, 100.0 * fraction, 1);
}

void markup_ratio(markup *m, double fraction)
{
    const double percent = 100.0 * fraction;
    markup_number(m, percent, fabs(percent - round(percent)) < 0.05 ? 0 : 1);
}

void markup_digits(markup *m, double value)
{
    const double size = fabs(value);
    markup_number(m, value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

void markup_seconds(markup *m, double seconds)
{
    static const struct {
        double below, factor;
        const char *unit;
    } units[] = {{0.0009995, 1e6, "\xC2\xB5s"},
                 {0.9995, 1e3, "ms"},
                 {599.5, 1.0, "s"},
                 {7170.0, 1.0 / 60.0, "min"},
                 {(double)INFINITY, 1.0 / 3600.0, "h"}};
    size_t i = 0;
    if (seconds == 0.0) {
        markup_raw(m, "0\xC2\xA0s");
        return;
    }
    while (isfinite(seconds) && !(fabs(seconds) < units[i].below)) {
        i++;
    }
    markup_digits(m, isfinite(seconds) ? seconds * units[i].factor : seconds);
    if (isfinite(seconds)) {
        markup_format(m, "\xC2\xA0%s", units[i].unit);
    }
}

void markup_scaled(markup *m, double value, const char *unit)
{
    static const char *const scales[] = {"", "k", "M", "G", "T", "P"};
    size_t scale = 0;
    while (value >= 999.5 && scale + 1 < sizeof scales / sizeof scales[0]) {
        value /= 1000.0;
        scale++;
    }
    if (scale == 0) {
        markup_number(m, value, 0);
    } else {
        markup_digits(m, value);
    }
    if (isfinite(value) && (scale > 0 || unit[0] != 0)) {
        markup_format(m, "\xC2\xA0%s%s", scales[scale], unit);
    }
}
