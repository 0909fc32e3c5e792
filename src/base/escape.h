/* Text that somebody else wrote, made safe for a terminal, a log or JSON (grail/escape.h): one
 * character, one byte that is none, or one escape at a time. */
#ifndef GRAIL_BASE_ESCAPE_H
#define GRAIL_BASE_ESCAPE_H

#include "base/buffer.h"

#include <grail/escape.h>

enum { ESCAPE_LONGEST = 8 };

/** What stands for the bytes at the beginning of a text. */
typedef struct escape_unit {
    char bytes[ESCAPE_LONGEST];
    size_t size;  /* of `bytes` */
    size_t taken; /* bytes of the text that it stands for, at least 1 */
} escape_unit;

/** The first unit of a text of `left` >= 1 bytes. What is escaped already is one unit. */
escape_unit escape_line_unit(const char *text, size_t left);

/** Appends `size` bytes of text; with the same result as grail_escape. */
grail_status escape_append(grail_escape_use use, const void *text, size_t size,
                           buffer *out) GRAIL_MUST_CHECK;

#endif
