/* SHA-256 (libmd) of bytes, as hexadecimal text. */
#ifndef GRAIL_BASE_HASH_H
#define GRAIL_BASE_HASH_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_TEXT_SIZE = 65 };

/** Hashes bytes that arrive in pieces: begin, add each piece, end once. */
typedef struct hash_state {
    uint64_t context[32]; /* libmd's */
} hash_state;

void hash_begin(hash_state *state);
void hash_add(hash_state *state, const void *bytes, size_t size);
void hash_end(hash_state *state, char out[HASH_TEXT_SIZE]);

void hash_bytes(const void *bytes, size_t size, char out[HASH_TEXT_SIZE]);

/** The first 64 bits of it. */
uint64_t hash_short(const void *bytes, size_t size);

/* A set of 64-bit hashes, with which two sets of data are compared without keeping them; and the
 * file that holds one: the hashes in ascending order, 8 bytes each, the lowest byte first. */

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
