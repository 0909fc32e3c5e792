/* The members of a zip archive in memory: their places.
 *
 * Only the central directory is trusted, and only after it was checked: every member has its own
 * name and its own bytes before the directory, and is not encrypted. */
#ifndef GRAIL_FORMAT_TORCH_ZIP_READER_H
#define GRAIL_FORMAT_TORCH_ZIP_READER_H

#include "format/torch/torch_limits.h"

#include "base/memory.h"

typedef struct zip_member {
    char *name; /* owned by the archive */
    bool is_compressed;
    uint32_t crc;
    size_t header; /* offset of its local header */
    size_t offset; /* of its first byte */
    size_t size;   /* bytes in the archive */
} zip_member;

typedef struct zip_reader zip_reader;

/** Reads the directory of `bytes`, which must outlive *out. Messages name the member. *out is
 * owned: zip_reader_close. */
grail_status zip_reader_open(const void *bytes, size_t size, zip_reader **out) GRAIL_MUST_CHECK;
void zip_reader_close(zip_reader *zip); /* NULL is allowed */

int64_t zip_reader_count(const zip_reader *zip);
/** In the order of the directory. */
const zip_member *zip_reader_at(const zip_reader *zip, int64_t i);
/** NULL when there is none of that name. */
const zip_member *zip_reader_find(const zip_reader *zip, const char *name);

#endif
