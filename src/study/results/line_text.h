/* The text of a line of the results: one JSON object whose last key is the checksum of the text
 * before it, so that a damaged line is noticed. */
#ifndef GRAIL_STUDY_RESULTS_LINE_TEXT_H
#define GRAIL_STUDY_RESULTS_LINE_TEXT_H

#include "base/json.h"

/** Appends the line of a document that is an object with keys. */
grail_status line_append_text(const json_t *document, buffer *out) GRAIL_MUST_CHECK;

/**
 * The document of a line without its line end. *version is that of the file and 0 before its first
 * line, which sets it. A checksum that does not match is GRAIL_ERROR_FORMAT, and so is a line
 * without one in a file of version 2. *out is owned.
 */
grail_status line_parse_text(const char *where, const char *text, size_t size, int64_t *version,
                             json_t **out) GRAIL_MUST_CHECK;

/** Whether the text behind the last line end is a complete line whose line end was overwritten. */
bool line_lost_its_end(const char *text, size_t size);

#endif
