/* The tensors that a file will hold, and the file: shared by the writers of all formats. All
 * tensors are declared first; then each is written once, completely, in any order. The writer
 * decides where the bytes stand. Messages name the file from tensor_slots_open on; before that, the
 * caller adds the name. */
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

/** Declares `count` tensors (name, dtype, rank, shape are read) of the file `path`. To be followed
 * by tensor_slots_fini, even where it fails. */
grail_status tensor_slots_declare(tensor_slots *slots, const char *path, int64_t count,
                                  const tensor_view tensors[]) GRAIL_MUST_CHECK;

/** Ends the declarations; a name given twice is refused. The caller may sort the items before. */
grail_status tensor_slots_index(tensor_slots *slots) GRAIL_MUST_CHECK;

/** Opens the file, which is laid out so from now on: `layout` must outlive the slots' use. */
grail_status tensor_slots_open(tensor_slots *slots, const file_layout *layout,
                               layout_start start) GRAIL_MUST_CHECK;

/** The item that `bytes` bytes of tensor `name` belong to: declared, and of that size. */
grail_status tensor_slots_find(const tensor_slots *slots, const char *name, size_t bytes,
                               int64_t *out) GRAIL_MUST_CHECK;
/** The same for a tensor to be written, which happens once; the caller marks it. */
grail_status tensor_slots_find_unwritten(const tensor_slots *slots, const char *name, size_t bytes,
                                         int64_t *out) GRAIL_MUST_CHECK;

/** Flushes the file to disk. */
grail_status tensor_slots_flush(const tensor_slots *slots) GRAIL_MUST_CHECK;
/** Makes the file one that readers open: file_layout_seal. */
grail_status tensor_slots_seal(const tensor_slots *slots) GRAIL_MUST_CHECK;

/** Closes the file; what was not synced may be lost. */
void tensor_slots_fini(tensor_slots *slots);

#endif
