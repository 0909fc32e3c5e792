/* Files that are laid out before their tensors are known. All that does not depend on the tensors
 * is written, and space for the rest reserved, in a temporary file that is renamed when both are on
 * disk: so a file under its final name has its whole layout and its space, always, and a full disk
 * shows before any work is done. */
#ifndef GRAIL_FORMAT_FILE_LAYOUT_H
#define GRAIL_FORMAT_FILE_LAYOUT_H

#include "base/buffer.h"

/* Bytes [at, at + size) of the layout stand at `begin` in the file. */
typedef struct layout_piece {
    size_t begin;
    size_t at;
    size_t size;
} layout_piece;

typedef struct file_layout {
    const unsigned char *bytes;
    const layout_piece *pieces; /* apart from each other, inside the file */
    int64_t piece_count;
    size_t file_size;
} file_layout;

/**
 * Makes the file `path`, or with `resume` continues one of the same layout; *out is its descriptor,
 * which the caller closes. Any other existing file is GRAIL_ERROR_EXISTS. On failure nothing is
 * left that was not there.
 */
grail_status file_layout_open(const file_layout *layout, const char *path, bool resume,
                              int *out) GRAIL_MUST_CHECK;

#endif
