#ifndef GRAIL_ESCAPE_H
#define GRAIL_ESCAPE_H

#include <grail/export.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Names, paths and other text from outside may hold control characters that act on a terminal,
 * marks that change the direction of text, and bytes that are not UTF-8. Messages of
 * grail_error_message() contain none of these. The library returns other text (names of sites,
 * paths, cells) as it was read: escape it before you show it.
 */
typedef enum grail_escape_use {
    /** One line for people. Characters that act on a terminal or end the line become \n, \t, \x1b,
     * \u009b, \u202e; a byte that is not UTF-8 becomes \xff. Backslashes stay as they are: escaping
     * twice changes nothing, but the original text cannot always be recovered. */
    GRAIL_ESCAPE_LINE,
    /** Any bytes as UTF-8, such as a path that becomes a JSON string. Valid UTF-8 stays exactly as
     * it is. In other text every byte that is not UTF-8 becomes \xff and every backslash is
     * doubled, so that the original can be recovered. */
    GRAIL_ESCAPE_NAME,
    /** A JSON document that is shown or logged. DEL, U+0080 to U+009F and the marks of direction
     * become JSON escapes such as \u202e, so the document keeps its meaning. */
    GRAIL_ESCAPE_JSON
} grail_escape_use;

/**
 * Writes the escaped text to out[size] and ends it with a NUL unless size is 0. Longer text is cut
 * between characters and escapes. Returns the length of the complete escaped text in bytes, without
 * the NUL, as snprintf does.
 */
GRAIL_API size_t grail_escape(grail_escape_use use, const char *text, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
