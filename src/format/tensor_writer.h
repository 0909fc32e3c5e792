/* A file of tensors being written, of any format. The function of a format that opens it declares
 * all tensors, lays the file out and reserves its space (a full disk shows here); then each tensor
 * is written once, completely, in any order. */
#ifndef GRAIL_FORMAT_TENSOR_WRITER_H
#define GRAIL_FORMAT_TENSOR_WRITER_H

#include "format/file_layout.h"
#include "format/name_index.h"
#include "tensor/tensor.h"

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
    buffer bytes;         /* what the layout's pieces and seal are taken from */
    layout_piece *pieces; /* owned */
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
/** Seals the file, so that readers open it. All tensors must have been put. */
grail_status tensor_writer_seal(const tensor_writer *writer) GRAIL_MUST_CHECK;
/** Closes; what was not flushed may be lost. NULL is allowed. */
void tensor_writer_close(tensor_writer *writer);

/* -- for the formats ---------------------------------------------------------------------------
 */

/** Declares the tensors, sorts them where the format wants it, indexes them, and fills the layout.
 * `own` is what the format's function for it gave. Messages need not name the file. */
typedef grail_status (*tensor_layout)(tensor_writer *writer, const void *own, int64_t count,
                                      const tensor_view tensors[]);

/** Declares `count` tensors (name, dtype, rank, shape are read). */
grail_status tensor_writer_declare(tensor_writer *writer, int64_t count,
                                   const tensor_view tensors[]) GRAIL_MUST_CHECK;
/** Ends the declarations and refuses duplicate names. */
grail_status tensor_writer_index(tensor_writer *writer) GRAIL_MUST_CHECK;
/** Opens a file as lay_out lays it out; *out is owned: tensor_writer_close. */
grail_status tensor_writer_open(const char *path, tensor_layout lay_out, const void *own,
                                int64_t count, const tensor_view tensors[], layout_start start,
                                tensor_writer **out) GRAIL_MUST_CHECK;

#endif
