#ifndef GRAIL_ESCAPE_H
#define GRAIL_ESCAPE_H

#include <grail/export.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Names, paths and other text that somebody else wrote may hold control characters that act on a
 * terminal, marks that turn the direction of what follows, and bytes that are not UTF-8. Messages
 * of grail_error_message() are free of all these; what else the library hands out (names of sites,
 * paths, cells) is as it was read, and a program that shows it escapes it first.
 */
typedef enum grail_escape_use {
    /** One line for people: \n, \t, \x1b, \u009b, \u202e instead of what would act or end the
     * line, \xff instead of a byte that is not UTF-8. Backslashes stay as they are, so that
     * escaping twice changes nothing; the text cannot be turned back with certainty. */
    GRAIL_ESCAPE_LINE,
    /** Any bytes as UTF-8, such as a path that becomes a JSON string. UTF-8 stays exactly as it is.
     * Of other text the bytes that are not UTF-8 become \xff, and every backslash is doubled, so
     * that it can be turned back. */
    GRAIL_ESCAPE_NAME,
    /** A JSON document that is shown or logged: DEL, U+0080 to U+009F and the marks of direction
     * become JSON's own \u202e, which means the same. */
    GRAIL_ESCAPE_JSON
} grail_escape_use;

/**
 * Writes the escaped text to out[size], cut between characters and escapes where it is longer, and
 * ended by a NUL unless size is 0. Returns the bytes of the whole escaped text without the NUL, as
 * snprintf does.
 */
GRAIL_API size_t grail_escape(grail_escape_use use, const char *text, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
