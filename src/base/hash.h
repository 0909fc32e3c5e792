/* SHA-256 (libmd) of bytes, as hexadecimal text. */
#ifndef GRAIL_BASE_HASH_H
#define GRAIL_BASE_HASH_H

#include "base/status.h"

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

#endif
