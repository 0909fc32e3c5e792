/* Makes text from outside safe for a terminal, a log or JSON (grail/escape.h). It works in units:
 * one character, one byte that is no part of a character, or one escape. */
#ifndef GRAIL_BASE_ESCAPE_H
#define GRAIL_BASE_ESCAPE_H

#include <grail/escape.h>

#include <stdbool.h>
#include <stddef.h>

enum { ESCAPE_LONGEST = 8 };

/** The replacement of the bytes at the beginning of a text. */
typedef struct escape_unit {
    char bytes[ESCAPE_LONGEST];
    size_t size;  /* of `bytes` */
    size_t taken; /* bytes of the text that it replaces, at least 1 */
} escape_unit;

/** The first unit of a text of `left` >= 1 bytes. An existing escape is one unit. */
escape_unit escape_line_unit(const char *text, size_t left);

/** Whether every backslash of such a text is doubled: of a name that is not UTF-8. */
bool escape_doubles_backslashes(grail_escape_use use, const char *text, size_t size);

/** The first unit of what is left of a text, for any use. */
escape_unit escape_next_unit(grail_escape_use use, const char *text, size_t left, bool doubles);

#endif
