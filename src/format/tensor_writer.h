/* A file of tensors being written, of any format. The function of a format that opens it lays the
 * file out: everything that does not depend on the values of the tensors is written, and the space
 * of the rest reserved, so that a full disk shows before any work is done. Then each tensor is
 * written once, completely, in any order, and last the seal: bytes without which no reader opens
 * the file. */
#ifndef GRAIL_FORMAT_TENSOR_WRITER_H
#define GRAIL_FORMAT_TENSOR_WRITER_H

#include "base/buffer.h"
#include "format/name_index.h"
#include "tensor/tensor.h"

/* Bytes [at, at + size) of the layout are written at `begin` of the file. */
typedef struct layout_piece {
    size_t begin;
    size_t at;
    size_t size;
} layout_piece;

typedef struct file_layout {
    buffer bytes;
    layout_piece *pieces; /* disjoint, inside the file; owned */
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

typedef struct tensor_slot {
    char *name; /* owned */
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    size_t bytes;
    size_t place; /* in the file */
    /* Where the CRC-32 of the bytes is written after them, 4 bytes little-endian; 0: nowhere. */
    size_t checksums[2];
    bool written;
} tensor_slot;

typedef struct tensor_writer {
    char *path;
    int descriptor; /* -1 until the file is open */
    tensor_slot *items;
    int64_t count;
    name_index index;
    file_layout layout;
} tensor_writer;

/** Writes the complete tensor `name`, once; `bytes` must equal its size. */
grail_status tensor_writer_put(tensor_writer *writer, const char *name, const void *data,
                               size_t bytes) GRAIL_MUST_CHECK;
/** Reads the complete tensor `name` back, as this writer or an earlier one wrote it. */
grail_status tensor_writer_get(const tensor_writer *writer, const char *name, void *data,
                               size_t bytes) GRAIL_MUST_CHECK;
/** Flushes everything to disk. */
grail_status tensor_writer_flush(const tensor_writer *writer) GRAIL_MUST_CHECK;
/** Flushes the file, writes the seal, and flushes again. All tensors must have been put. Sealing a
 * sealed file changes nothing. */
grail_status tensor_writer_seal(const tensor_writer *writer) GRAIL_MUST_CHECK;
/** Closes; what was not flushed may be lost. NULL is allowed. */
void tensor_writer_close(tensor_writer *writer);

/** What a format does with the declared tensors: sorts them where it wants that, gives them places,
 * and fills the layout. `own` is what its function that opens a file gave. Messages need not name
 * the file. */
typedef grail_status (*tensor_layout)(tensor_writer *writer, const void *own);

/** Opens a file of `count` tensors (name, dtype, rank, shape are read) as lay_out lays it out; *out
 * is owned: tensor_writer_close. On failure a new file is removed again. */
grail_status tensor_writer_open(const char *path, tensor_layout lay_out, const void *own,
                                int64_t count, const tensor_view tensors[], layout_start start,
                                tensor_writer **out) GRAIL_MUST_CHECK;

/** Adds a piece of these bytes, which are copied, at `begin` of the file; none of no bytes. The
 * buffer of a zeroed layout must be initialised. */
grail_status file_layout_add(file_layout *layout, const void *bytes, size_t size,
                             size_t begin) GRAIL_MUST_CHECK;
void file_layout_fini(file_layout *layout); /* works on a zeroed one */

#endif
