/* Texts for people, formatted without allocating: what is inserted cannot act on a terminal, end
 * the line, or push the rest of the text out. */
#ifndef GRAIL_BASE_MESSAGE_H
#define GRAIL_BASE_MESSAGE_H

#include <grail/export.h>

#include <stdarg.h>
#include <stddef.h>

/**
 * As vsnprintf to text[size], with size > 8, but what %s and %c insert is escaped
 * (GRAIL_ESCAPE_LINE), and of more than 320 bytes the middle is left out, "..." standing there: a
 * name of any length leaves room for what is said of it. The whole is cut between characters and
 * escapes, with "..." at its end. Known are %% and d i u x X o c s p e f g with their flags,
 * widths, precisions and lengths (not for long double or wide characters).
 */
void message_format(char *text, size_t size, const char *format, va_list arguments)
    GRAIL_PRINTF(3, 0);

/** Appends a message to one of at most `size` bytes, escaped and cut likewise, but no middle of it
 * is left out. */
void message_append(char *text, size_t size, const char *more);

#endif
