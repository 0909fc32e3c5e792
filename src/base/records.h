/* Records: JSON lines that carry a checksum, {"record":...,"crc32":"89abcdef"}. The checksum is
 * that of the text between "record": and ,"crc32". */
#ifndef GRAIL_BASE_RECORDS_H
#define GRAIL_BASE_RECORDS_H

#include "base/json.h"

/** Appends one line. */
grail_status record_append_line(const json_t *record, buffer *out) GRAIL_MUST_CHECK;

/**
 * The records of a file as an array; *out is owned. A last line without a line end was being
 * written when its program ended, so it does not count. Any other line that is not a record, or
 * does not match its checksum, is GRAIL_ERROR_FORMAT; the message names `path` and the line.
 */
grail_status records_parse(const char *path, const void *text, size_t size,
                           json_t **out) GRAIL_MUST_CHECK;

#endif
