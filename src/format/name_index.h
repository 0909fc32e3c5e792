/* Names looked up by binary search: tensors of a file, of a checkpoint, of a writer. */
#ifndef GRAIL_FORMAT_NAME_INDEX_H
#define GRAIL_FORMAT_NAME_INDEX_H

#include "base/memory.h"

typedef struct name_entry {
    const char *name; /* borrowed */
    int64_t item;
} name_entry;

typedef struct name_index {
    name_entry *entries; /* owned; sorted by name in byte order, then by item */
    int64_t count;
} name_index;

/** Indexes `count` items of `stride` bytes, whose first member is a name (const char *); the names
 * must outlive the index. Equal names are allowed. */
grail_status name_index_init(name_index *index, int64_t count, const void *items,
                             size_t stride) GRAIL_MUST_CHECK;

/** Position in `entries` of the first name that occurs twice, or -1; an equal name follows it. */
int64_t name_index_duplicate(const name_index *index);
/** The first name that occurs twice, or NULL. */
const char *name_index_twice(const name_index *index);

/** The item of that name, or -1. */
int64_t name_index_find(const name_index *index, const char *name);

/** The item of that name, or -1 when there is none or more than one. */
int64_t name_index_find_single(const name_index *index, const char *name);

/** Works on a zeroed one. */
void name_index_fini(name_index *index);

#endif
