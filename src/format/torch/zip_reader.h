/* The members of a zip archive in memory: their places and their contents.
 *
 * Only the central directory is trusted, and only after it was checked: every member has its own
 * name and its own bytes before the directory, is not encrypted, is stored or deflated, and claims
 * no more than its compressed bytes can hold. The size of all deflated members together is limited
 * before any is inflated. */
#ifndef GRAIL_FORMAT_TORCH_ZIP_READER_H
#define GRAIL_FORMAT_TORCH_ZIP_READER_H

#include "format/torch/torch_limits.h"

#include "base/memory.h"

/* The end of messages about too much compression. */
#define ZIP_REMEDY                                                                                 \
    "; load it with torch.load and save it again with torch.save, which stores without "           \
    "compression"

typedef struct zip_member {
    char *name; /* owned by the archive */
    bool deflated;
    uint32_t crc;
    size_t header;      /* offset of its local header */
    size_t offset;      /* of its first byte, compressed or not */
    size_t stored_size; /* bytes in the archive */
    size_t size;        /* bytes it holds; equal unless deflated */
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

/**
 * The content of a member. A stored member is returned in place, and *owned is NULL; a deflated one
 * is inflated into *owned, which the caller frees. Bytes that do not inflate to exactly its size
 * and checksum are GRAIL_ERROR_FORMAT.
 */
grail_status zip_reader_bytes(const zip_reader *zip, const zip_member *member, const void **out,
                              void **owned) GRAIL_MUST_CHECK;

#endif
