/* Zip archives: the members of one in memory, and the layout of a new one.
 *
 * Only the central directory of an archive is trusted, and only after it was checked: every member
 * has its own name and its own bytes before the directory, and is not encrypted.
 *
 * The layout of a new one, of stored members, has headers, directory, and the contents that are
 * known already; other contents are written later. As in torch's files, data begins at multiples of
 * 64 bytes. */
#ifndef GRAIL_FORMAT_TORCH_ZIP_H
#define GRAIL_FORMAT_TORCH_ZIP_H

#include "format/name_index.h"
#include "format/tensor_writer.h"
#include "format/torch/torch_limits.h"

typedef struct zip_member {
    char *name; /* owned by the archive */
    bool is_compressed;
    size_t header; /* offset of its local header */
    size_t offset; /* of its first byte */
    size_t size;   /* bytes in the archive */
} zip_member;

typedef struct zip_reader {
    const unsigned char *bytes;
    size_t size;
    size_t directory; /* where it begins */
    size_t directory_size;
    zip_member *members; /* in the order of the directory; owned */
    int64_t count;
    name_index index;
} zip_reader;

/** Reads the directory of `bytes`, which must outlive *out. Messages name the member. *out is
 * owned: zip_reader_close. */
grail_status zip_reader_open(const void *bytes, size_t size, zip_reader **out) GRAIL_MUST_CHECK;
void zip_reader_close(zip_reader *zip); /* NULL is allowed */

/** NULL when there is none of that name. */
const zip_member *zip_reader_find(const zip_reader *zip, const char *name);

/* The place of a member in the file. The checksum of its bytes (CRC-32, 4 bytes little-endian) is
 * written to the header and to the directory after the bytes. */
typedef struct zip_place {
    char *name; /* owned */
    size_t header;
    size_t data;
    size_t size;
    uint32_t crc; /* 0 if the content is written later */
    bool later;
    size_t header_crc;
    size_t directory_crc;
} zip_place;

typedef struct zip_layout {
    file_layout file; /* its seal is the end of the directory; without it the file is no archive */
    zip_place *members;
    int64_t count;
} zip_layout;

/** An empty archive; nothing is allocated yet. */
void zip_layout_init(zip_layout *zip);
void zip_layout_fini(zip_layout *zip); /* works on a zeroed one */

/** Adds a member of `size` bytes after the others. If `data` is NULL, its content is written later.
 */
grail_status zip_layout_add(zip_layout *zip, const char *name, const void *data,
                            size_t size) GRAIL_MUST_CHECK;

/** Adds the directory; nothing can be added after it. */
grail_status zip_layout_finish(zip_layout *zip) GRAIL_MUST_CHECK;

#endif
