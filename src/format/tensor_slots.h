/* A file being written and the tensors that it will hold: shared by the writers of all formats. All
 * tensors are declared first; then each is written once, completely, in any order. The writer of
 * the format decides where their bytes go. Messages name the file from tensor_slots_open on; before
 * that, the caller adds the name. */
#ifndef GRAIL_FORMAT_TENSOR_SLOTS_H
#define GRAIL_FORMAT_TENSOR_SLOTS_H

#include "format/file_layout.h"
#include "format/name_index.h"
#include "tensor/tensor.h"

typedef struct tensor_slot {
    char *name; /* owned */
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    size_t bytes;
    bool written;
} tensor_slot;

typedef struct tensor_slots {
    char *path;
    int descriptor; /* -1 until the file is open */
    tensor_slot *items;
    int64_t count;
    name_index index;
    const file_layout *layout; /* borrowed from tensor_slots_open */
} tensor_slots;

/** Declares `count` tensors (name, dtype, rank, shape are read) of the file `path`. The caller
 * calls tensor_slots_fini even after a failure. */
grail_status tensor_slots_declare(tensor_slots *slots, const char *path, int64_t count,
                                  const tensor_view tensors[]) GRAIL_MUST_CHECK;

/** Ends the declarations and refuses duplicate names. The caller may sort the items before. */
grail_status tensor_slots_index(tensor_slots *slots) GRAIL_MUST_CHECK;

/** Opens the file as `layout` says. `layout` must stay valid until tensor_slots_fini. */
grail_status tensor_slots_open(tensor_slots *slots, const file_layout *layout,
                               layout_start start) GRAIL_MUST_CHECK;

/** The item of tensor `name`, which must be declared and have `bytes` bytes. */
grail_status tensor_slots_find(const tensor_slots *slots, const char *name, size_t bytes,
                               int64_t *out) GRAIL_MUST_CHECK;
/** The same for a tensor that is about to be written. A tensor is written only once; the caller
 * marks it as written. */
grail_status tensor_slots_find_unwritten(const tensor_slots *slots, const char *name, size_t bytes,
                                         int64_t *out) GRAIL_MUST_CHECK;

/** Flushes the file to disk. */
grail_status tensor_slots_flush(const tensor_slots *slots) GRAIL_MUST_CHECK;
/** Seals the file (file_layout_seal), so that readers open it. */
grail_status tensor_slots_seal(const tensor_slots *slots) GRAIL_MUST_CHECK;

/** Closes the file; what was not flushed may be lost. */
void tensor_slots_fini(tensor_slots *slots);

#endif
