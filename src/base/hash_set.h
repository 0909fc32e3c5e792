/* A set of 64-bit hashes, with which two sets of data are compared without keeping them; and the
 * file that holds one: the hashes in ascending order, 8 bytes each, the lowest byte first. */
#ifndef GRAIL_BASE_HASH_SET_H
#define GRAIL_BASE_HASH_SET_H

#include "base/buffer.h"
#include "base/hash.h"

#include <stdbool.h>

enum { HASH_SET_MOST = 4096, HASH_SET_LARGEST = 8 * HASH_SET_MOST };

typedef struct hash_set {
    uint64_t *hashes; /* ascending, distinct, owned */
    int64_t count;    /* at most HASH_SET_MOST */
} hash_set;

/** An empty set with room for HASH_SET_MOST hashes. hash_set_fini frees. */
grail_status hash_set_init(hash_set *set) GRAIL_MUST_CHECK;
void hash_set_fini(hash_set *set); /* works on a zeroed one */

/** Orders hashes that were added at the end of `hashes`, and drops those that are there twice. */
void hash_set_settle(hash_set *set);

/** Adds the hashes of another set. Where these are more than HASH_SET_MOST, every so many of both
 * stay. `set` has room for HASH_SET_MOST (hash_set_init). */
grail_status hash_set_add(hash_set *set, const hash_set *other) GRAIL_MUST_CHECK;

bool hash_set_has(const hash_set *set, uint64_t hash);

/** Marks the hash if it is in the set. Returns 1 if it was not marked before, otherwise 0. */
int64_t hash_set_mark(const hash_set *set, uint64_t hash, bool marked[HASH_SET_MOST]);

/** Appends the content of the file. */
grail_status hash_set_append(const hash_set *set, buffer *out) GRAIL_MUST_CHECK;

/** Reads the content of a file, whose bytes must have this SHA-256; `path` is for messages. Other
 * bytes, hashes that do not ascend, and more than HASH_SET_MOST of them are GRAIL_ERROR_FORMAT.
 * hash_set_fini frees *out. */
grail_status hash_set_read(const char *path, const buffer *bytes, const char *sha256,
                           hash_set *out) GRAIL_MUST_CHECK;

#endif
