/* Keeps freed buffers for reuse, because a fresh large buffer costs page faults. */
#ifndef GRAIL_EXEC_POOL_H
#define GRAIL_EXEC_POOL_H

#include "base/memory.h"

typedef struct buffer_pool buffer_pool;

/** *out is owned: buffer_pool_free. */
grail_status buffer_pool_create(buffer_pool **out) GRAIL_MUST_CHECK;
void buffer_pool_free(buffer_pool *pool); /* NULL is allowed */

/** A 64-byte aligned buffer of at least `bytes`; give it back to the same pool. */
grail_status buffer_pool_take(buffer_pool *pool, size_t bytes, void **out) GRAIL_MUST_CHECK;
void buffer_pool_give(buffer_pool *pool, void *data); /* NULL is allowed */

/** Frees the buffers that are not in use. */
void buffer_pool_clear(buffer_pool *pool);

#endif
