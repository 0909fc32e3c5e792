/* Layout of a zip archive of stored members: headers, directory, and the contents that are known
 * already; other contents are written later. As in torch's files, data begins at multiples of 64
 * bytes. */
#ifndef GRAIL_FORMAT_TORCH_ZIP_LAYOUT_H
#define GRAIL_FORMAT_TORCH_ZIP_LAYOUT_H

#include "format/file_layout.h"

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
    buffer bytes;
    layout_piece *pieces;
    int64_t piece_count;
    layout_piece seal; /* the end of the directory; without it the file is no archive */
    zip_place *members;
    int64_t count;
    size_t file_size;
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
