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
    va_list arguments;
    va_start(arguments, format);
    if (m->status == GRAIL_OK) {
        m->status = buffer_format_list(&m->bytes, format, arguments);
    }
    va_end(arguments);
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

/* Length of the next character or a part of it; *instead is what stands for it, NULL for itself. */
static size_t next_piece(const char *text, const char **instead)
{
    const size_t control = control_length(text);
    *instead = control > 0 ? REPLACEMENT : entity(*text);
    return control > 0 ? control : 1;
}

void markup_part(markup *m, const char *text, size_t size)
{
    const char *end = text + size;
    const char *plain = text;
    while (text < end) {
        const char *instead = NULL;
        const size_t taken = next_piece(text, &instead);
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
    markup_part(m, text, strlen(text));
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

start_text start_of(const char *text, size_t most)
{
    start_text out;
    size_t used = 0;
    const bool is_cut = count_characters(text) > most;
    const char *end = is_cut ? character_at(text, most - 1) : text + strlen(text);
    while (text < end && used <= LONGEST_PIECE * (MOST_START - 1)) {
        const char *instead = NULL;
        const size_t taken = next_piece(text, &instead);
        const size_t size = instead == NULL ? taken : strlen(instead);
        memcpy(out.text + used, instead == NULL ? text : instead, size);
        used += size;
        text += taken;
    }
    memcpy(out.text + used, is_cut ? ELLIPSIS : "", is_cut ? sizeof ELLIPSIS : 1);
    return out;
}

short_text text_format(const char *format, ...)
{
    short_text out;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out.text, sizeof out.text, format, arguments);
    va_end(arguments);
    return out;
}

/* Digits through integers: printf of a double would follow the locale's decimal mark. */
static short_text fixed_text(double value, int decimals)
{
    static const long long powers[MOST_DECIMALS + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    const long long scaled = llround(fabs(value) * (double)powers[decimals]);
    const char *sign = value < 0.0 && scaled != 0 ? "-" : "";
    const long long whole = scaled / powers[decimals];
    return decimals == 0
               ? text_format("%s%lld", sign, whole)
               : text_format("%s%lld.%0*lld", sign, whole, decimals, scaled % powers[decimals]);
}

short_text number_text(double value, int decimals)
{
    if (!isfinite(value)) {
        return text_format(EN_DASH);
    }
    if (fabs(value) < 1e12) {
        return fixed_text(value, decimals);
    }
    const int exponent = (int)floor(log10(fabs(value)));
    return text_format("%se%d", fixed_text(value / pow(10.0, exponent), 1).text, exponent);
}

short_text percent_text(double fraction)
{
    return number_text(100.0 * fraction, 1);
}

short_text ratio_text(double fraction)
{
    const double percent = 100.0 * fraction;
    return number_text(percent, fabs(percent - round(percent)) < 0.05 ? 0 : 1);
}

/* "1.34", "12.3", "1234": three digits, or all before the point. */
static short_text digits_text(double value)
{
    const double size = fabs(value);
    return number_text(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

short_text seconds_text(double seconds)
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
    if (seconds == 0.0 || !isfinite(seconds)) {
        return text_format(seconds == 0.0 ? "0\xC2\xA0s" : EN_DASH);
    }
    while (!(fabs(seconds) < units[i].below)) {
        i++;
    }
    return text_format("%s\xC2\xA0%s", digits_text(seconds * units[i].factor).text, units[i].unit);
}

short_text scaled_text(double value, const char *unit)
{
    static const char *const scales[] = {"", "k", "M", "G", "T", "P"};
    size_t scale = 0;
    while (value >= 999.5 && scale + 1 < sizeof scales / sizeof scales[0]) {
        value /= 1000.0;
        scale++;
    }
    const short_text digits = scale == 0 ? number_text(value, 0) : digits_text(value);
    const bool has_unit = isfinite(value) && (scale > 0 || unit[0] != 0);
    return text_format("%s%s%s%s", digits.text, has_unit ? "\xC2\xA0" : "",
                       has_unit ? scales[scale] : "", has_unit ? unit : "");
}
