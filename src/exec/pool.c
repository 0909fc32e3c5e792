/* The buffer pool: a short list of free buffers, best fit within twice the size. */
#include "exec/pool.h"

enum { POOL_SLOTS = 16 };

typedef struct pool_header {
    size_t bytes;
    unsigned char padding[56]; /* keeps the data 64-byte aligned */
} pool_header;

struct buffer_pool {
    pool_header *free[POOL_SLOTS];
    int count;
};

grail_status buffer_pool_create(buffer_pool **out)
{
    return memory_new(out, 1, sizeof **out);
}

void buffer_pool_free(buffer_pool *pool)
{
    if (pool != NULL) {
        buffer_pool_clear(pool);
        memory_free(pool);
    }
}

void buffer_pool_clear(buffer_pool *pool)
{
    for (int i = 0; i < pool->count; i++) {
        memory_free(pool->free[i]);
    }
    pool->count = 0;
}

static int best_fit(const buffer_pool *pool, size_t bytes)
{
    int best = -1;
    for (int i = 0; i < pool->count; i++) {
        const size_t size = pool->free[i]->bytes;
        if (size >= bytes && size / 2 <= bytes && (best < 0 || size < pool->free[best]->bytes)) {
            best = i;
        }
    }
    return best;
}

grail_status buffer_pool_take(buffer_pool *pool, size_t bytes, void **out)
{
    grail_status status = GRAIL_OK;
    pool_header *header = NULL;
    const int slot = best_fit(pool, bytes);
    if (slot >= 0) {
        header = pool->free[slot];
        pool->free[slot] = pool->free[--pool->count];
    } else {
        size_t total = 0;
        if (!size_add(bytes, sizeof *header, &total)) {
            total = SIZE_MAX; /* refused below as too large */
        }
        TRY(memory_new_unset(&header, total, 1));
        header->bytes = bytes;
    }
    *out = header + 1;
out:
    return status;
}

void buffer_pool_give(buffer_pool *pool, void *data)
{
    if (data == NULL) {
        return;
    }
    pool_header *header = (pool_header *)data - 1;
    if (pool->count == POOL_SLOTS) {
        memory_free(pool->free[0]);
        pool->free[0] = pool->free[--pool->count];
    }
    pool->free[pool->count++] = header;
}
