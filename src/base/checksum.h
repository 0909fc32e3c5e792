/* The CRC-32 of zip and gzip. It detects bytes that a disk or a memory changed by accident; it does
 * not detect forgery. Lines of JSON carry it as their last key: {...,"crc32":"89abcdef"}. */
#ifndef GRAIL_BASE_CHECKSUM_H
#define GRAIL_BASE_CHECKSUM_H

#include "base/buffer.h"

enum { CHECKSUM_TEXT_SIZE = 9 };

uint32_t checksum_crc32(const void *bytes, size_t size);
/** Writes the CRC-32 of the bytes as 8 hexadecimal digits; returns `out`. */
const char *checksum_text(const void *bytes, size_t size, char out[CHECKSUM_TEXT_SIZE]);

/** GRAIL_ERROR_FORMAT where the bytes of a tensor of `place` have another checksum than the
 * recorded one. */
grail_status checksum_verify(const char *tensor, const char *place, const void *bytes, size_t size,
                             const char *recorded) GRAIL_MUST_CHECK;

/** Ends an object: appends ,"crc32":"89abcdef"} with the checksum of the line from `begin` on. */
grail_status checksum_append_end(buffer *line, size_t begin) GRAIL_MUST_CHECK;

typedef enum checksum_end {
    CHECKSUM_ABSENT, /* the line does not end with a checksum */
    CHECKSUM_WRONG,
    CHECKSUM_RIGHT
} checksum_end;

/** Looks at a line without its line end. Unless the checksum is absent *length becomes the number
 * of bytes between `begin` and its key. */
checksum_end checksum_check_end(const char *line, size_t size, size_t begin, size_t *length);

#endif
