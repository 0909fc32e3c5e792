/* The bytes of a text in order, piece by piece: from a mapped file, from memory, or from a gzip
 * file, which is decompressed on the way. Only one piece is in memory at a time, whatever the size
 * of the file. */
#ifndef GRAIL_FORMAT_TEXT_TEXT_SOURCE_H
#define GRAIL_FORMAT_TEXT_TEXT_SOURCE_H

#include "base/file.h"
#include "format/text/text_limits.h"

struct gzFile_s;

/* Spaces, tabulators and line ends. */
static inline bool text_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A zeroed one is closed. */
typedef struct text_source {
    file_map map; /* empty when the bytes are the caller's */
    const unsigned char *bytes;
    size_t size;
    struct gzFile_s *stream; /* NULL unless compressed */
    unsigned char *piece;    /* the piece decompressed last; owned */
    size_t read;             /* bytes handed out */
    bool ended;
} text_source;

/** Opens a file; messages name it. Close with text_source_close. */
grail_status text_source_open(text_source *source, const char *path) GRAIL_MUST_CHECK;
/** The same for a gzip file. */
grail_status text_source_open_compressed(text_source *source, const char *path) GRAIL_MUST_CHECK;
void text_source_of_bytes(text_source *source, const void *bytes, size_t size);
void text_source_close(text_source *source); /* works on a zeroed one */

/**
 * The next piece, valid until the next call; *size is 0 at the end. A text of more than
 * TEXT_LARGEST bytes, or a gzip file beyond TEXT_MOST_RATIO, is GRAIL_ERROR_FORMAT. Messages do not
 * name the file.
 */
grail_status text_source_next(text_source *source, const unsigned char **piece,
                              size_t *size) GRAIL_MUST_CHECK;

#endif
