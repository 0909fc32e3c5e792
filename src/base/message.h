/* Formats messages without allocating. Inserted text cannot control a terminal, end the line, or
 * push the rest of the message out. */
#ifndef GRAIL_BASE_MESSAGE_H
#define GRAIL_BASE_MESSAGE_H

#include <grail/export.h>

#include <stdarg.h>
#include <stddef.h>

/**
 * Like vsnprintf to text[size], with size > 8, but escapes what %s and %c insert
 * (GRAIL_ESCAPE_LINE) and replaces the middle of more than 320 inserted bytes by "...", so that a
 * long name leaves room for the rest of the message. A message that is too long is cut between
 * characters and escapes and ends in "...". Supports %% and d i u x X o c s p e f g with their
 * flags, widths, precisions and lengths (not long double or wide characters).
 */
void message_format(char *text, size_t size, const char *format, va_list arguments)
    GRAIL_PRINTF(3, 0);

/** Appends `more` to a message of at most `size` bytes. It is escaped and cut in the same way, but
 * keeps its middle. */
void message_append(char *text, size_t size, const char *more);

#endif
