/* Lays out files before their tensors are known: writes everything that does not depend on the
 * tensors, and reserves space for the rest, so that a full disk shows before any work is done. The
 * seal is written last: bytes without which no reader opens the file. */
#ifndef GRAIL_FORMAT_FILE_LAYOUT_H
#define GRAIL_FORMAT_FILE_LAYOUT_H

#include "base/buffer.h"

/* Bytes [at, at + size) of the layout are written at `begin` of the file. */
typedef struct layout_piece {
    size_t begin;
    size_t at;
    size_t size;
} layout_piece;

typedef struct file_layout {
    const unsigned char *bytes;
    const layout_piece *pieces; /* disjoint, inside the file */
    int64_t piece_count;
    layout_piece seal; /* not one of `pieces` */
    size_t file_size;
} file_layout;

/* What the path must hold before the call. */
typedef enum layout_start {
    LAYOUT_NEW,       /* nothing; anything else is GRAIL_ERROR_EXISTS */
    LAYOUT_CONTINUED, /* a file of this layout, sealed or not; any other is GRAIL_ERROR_EXISTS */
    LAYOUT_EMPTY      /* an empty file, to be filled */
} layout_start;

/** Lays out the file `path`, or continues it; *out is its descriptor, which the caller closes. On
 * failure a new file is removed again. */
grail_status file_layout_open(const file_layout *layout, const char *path, layout_start start,
                              int *out) GRAIL_MUST_CHECK;

/** Flushes the file, writes the seal, and flushes again. Sealing a sealed file changes nothing. */
grail_status file_layout_seal(const file_layout *layout, int descriptor,
                              const char *path) GRAIL_MUST_CHECK;

#endif
