#include "base/message.h"

#include "base/escape.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_INSERTED = 320, NUMBER_SIZE = 64, SPECIFICATION_SIZE = 32 };

static const char dots[] = "...";
enum { DOTS = sizeof dots - 1 };

/* A text that grows; there is always room for the dots after `used`. */
typedef struct message {
    char *text;
    size_t size, used;
    bool full; /* the dots stand at its end */
} message;

static void put(message *m, const char *bytes, size_t count)
{
    if (m->full) {
        return;
    }
    m->full = m->used + count + DOTS >= m->size;
    const char *added = m->full ? dots : bytes;
    const size_t length = m->full ? DOTS : count;
    memcpy(m->text + m->used, added, length);
    m->used += length;
    m->text[m->used] = 0;
}

static void put_text(message *m, const char *text, size_t length)
{
    escape_unit unit = {0};
    for (size_t at = 0; at < length && !m->full; at += unit.taken) {
        unit = escape_line_unit(text + at, length - at);
        put(m, unit.bytes, unit.size);
    }
}

static size_t escaped_size(const char *text, size_t length)
{
    size_t size = 0;
    escape_unit unit = {0};
    for (size_t at = 0; at < length; at += unit.taken) {
        unit = escape_line_unit(text + at, length - at);
        size += unit.size;
    }
    return size;
}

/* Inserts a text. A long text is cut in the middle. */
static void put_inserted(message *m, const char *text, size_t length)
{
    const size_t half = (LONGEST_INSERTED - DOTS) / 2;
    const size_t size = escaped_size(text, length);
    if (size <= LONGEST_INSERTED) {
        put_text(m, text, length);
        return;
    }
    escape_unit unit = {0};
    bool in_middle = false;
    size_t passed = 0; /* escaped bytes so far */
    for (size_t at = 0; at < length; at += unit.taken) {
        unit = escape_line_unit(text + at, length - at);
        if (passed + unit.size <= half || size - passed <= half) {
            put(m, unit.bytes, unit.size);
        } else if (!in_middle) {
            in_middle = true;
            put(m, dots, DOTS);
        }
        passed += unit.size;
    }
}

/* -- conversions ------------------------------------------------------------------------------- */

/* One conversion of a format: "%", flags, width and precision, as written or with the arguments
 * that replace "*". */
typedef struct conversion {
    char specification[SPECIFICATION_SIZE];
    int precision; /* -1: none */
    char length;   /* 0, 'l', 'z', 't', 'j'; 'L' for "ll" */
    char type;
} conversion;

typedef struct reader {
    const char *next; /* of the format */
    va_list arguments;
} reader;

static void extend(conversion *c, const char *format, int value)
{
    const size_t used = strlen(c->specification);
    snprintf(c->specification + used, sizeof c->specification - used, format, value);
}

/* Reads a number or "*"; -1 when there is neither. */
static int read_number(reader *r)
{
    int value = -1;
    if (*r->next == '*') {
        r->next++;
        return va_arg(r->arguments, int);
    }
    while (*r->next >= '0' && *r->next <= '9' && value < 1000) {
        value = (value < 0 ? 0 : 10 * value) + (*r->next++ - '0');
    }
    return value;
}

static bool is_signed(const conversion *c)
{
    return c->type == 'd' || c->type == 'i';
}

static long long read_integer(reader *r, const conversion *c)
{
    switch (c->length) {
    case 0:
        return is_signed(c) ? va_arg(r->arguments, int) : (long long)va_arg(r->arguments, unsigned);
    case 'l':
        return is_signed(c) ? va_arg(r->arguments, long)
                            : (long long)va_arg(r->arguments, unsigned long);
    case 'z':
    case 't':
        return is_signed(c) ? va_arg(r->arguments, ptrdiff_t)
                            : (long long)va_arg(r->arguments, size_t);
    default:
        return va_arg(r->arguments, long long);
    }
}

static void put_integer(message *m, reader *r, conversion *c)
{
    char text[NUMBER_SIZE];
    const long long value = read_integer(r, c);
    extend(c, "ll%c", c->type);
    snprintf(text, sizeof text, c->specification, value);
    put_text(m, text, strlen(text));
}

static void put_real(message *m, reader *r, conversion *c)
{
    char text[NUMBER_SIZE];
    extend(c, "%c", c->type);
    snprintf(text, sizeof text, c->specification, va_arg(r->arguments, double));
    put_text(m, text, strlen(text));
}

static void put_pointer(message *m, reader *r)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%p", va_arg(r->arguments, void *));
    put_text(m, text, strlen(text));
}

static void put_string(message *m, reader *r, const conversion *c)
{
    const char *text = va_arg(r->arguments, const char *);
    text = text == NULL ? "(null)" : text;
    put_inserted(m, text, c->precision < 0 ? strlen(text) : strnlen(text, (size_t)c->precision));
}

/* False for an unknown conversion. */
static bool put_conversion(message *m, reader *r)
{
    /* Reads what follows "%". */
    conversion c = {.specification = "%", .precision = -1};
    for (; *r->next != 0 && strchr("-+ #0", *r->next) != NULL; r->next++) {
        extend(&c, "%c", *r->next);
    }
    const int width = read_number(r);
    if (width >= 0) {
        extend(&c, "%d", width);
    }
    if (*r->next == '.') {
        r->next++;
        c.precision = read_number(r);
        c.precision = c.precision < 0 ? 0 : c.precision;
        extend(&c, ".%d", c.precision);
    }
    for (; *r->next != 0 && strchr("lzjt", *r->next) != NULL; r->next++) {
        c.length = c.length == 'l' ? 'L' : *r->next;
    }
    c.type = *r->next;
    r->next += c.type == 0 ? 0 : 1;
    char character = 0;
    switch (c.type) {
    case '%':
        put(m, "%", 1);
        return true;
    case 's':
        put_string(m, r, &c);
        return true;
    case 'c':
        character = (char)va_arg(r->arguments, int);
        put_inserted(m, &character, 1);
        return true;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        put_integer(m, r, &c);
        return true;
    case 'e':
    case 'f':
    case 'g':
        put_real(m, r, &c);
        return true;
    case 'p':
        put_pointer(m, r);
        return true;
    default:
        return false;
    }
}

void message_format(char *text, size_t size, const char *format, va_list arguments)
{
    message m = {.text = text, .size = size};
    reader r = {.next = format};
    bool known = true;
    text[0] = 0;
    va_copy(r.arguments, arguments);
    while (*r.next != 0 && known) {
        const size_t length = strcspn(r.next, "%");
        put(&m, r.next, length);
        r.next += length;
        if (*r.next == '%') {
            r.next++;
            known = put_conversion(&m, &r);
        }
    }
    va_end(r.arguments);
}

void message_append(char *text, size_t size, const char *more)
{
    message m = {.text = text, .size = size, .used = strlen(text)};
    m.full = m.used + DOTS >= size;
    put_text(&m, more, strlen(more));
}
