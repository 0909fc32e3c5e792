/* SHA-256 of blocks of 64 bytes by instructions of the processor. */
#ifndef GRAIL_BASE_HASH_BLOCKS_H
#define GRAIL_BASE_HASH_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Whether this processor has them; without, hash_blocks must not be called. */
bool hash_blocks_are_fast(void);

/** Adds `count` blocks to the words of a hash. */
void hash_blocks(uint32_t state[8], const uint8_t *bytes, size_t count);

#endif
