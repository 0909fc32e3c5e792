/* The pool: a short list of free matrices, best fit within twice the size. */
#include "exec/pool.h"

enum { POOL_SLOTS = 16 };

struct matrix_pool {
    backend *owner;
    matrix *free; /* [slots], owned */
    int slots, count;
};

grail_status matrix_pool_create(backend *b, matrix_pool **out)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = NULL;
    TRY(memory_new(&pool, 1, sizeof *pool));
    pool->owner = b;
    TRY(matrix_pool_widen(pool, POOL_SLOTS));
    *out = pool;
    pool = NULL;
out:
    matrix_pool_free(pool);
    return status;
}

grail_status matrix_pool_widen(matrix_pool *pool, int count)
{
    matrix *free = NULL;
    if (count <= pool->slots) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&free, (size_t)count, sizeof free[0]));
    for (int i = 0; i < pool->count; i++) {
        free[i] = pool->free[i];
    }
    memory_free(pool->free);
    pool->free = free;
    pool->slots = count;
    return GRAIL_OK;
}

void matrix_pool_narrow(matrix_pool *pool)
{
    while (pool->count > POOL_SLOTS) {
        matrix_free(&pool->free[--pool->count]);
    }
    pool->slots = POOL_SLOTS;
}

void matrix_pool_free(matrix_pool *pool)
{
    if (pool != NULL) {
        matrix_pool_clear(pool);
        memory_free(pool->free);
        memory_free(pool);
    }
}

void matrix_pool_clear(matrix_pool *pool)
{
    for (int i = 0; i < pool->count; i++) {
        matrix_free(&pool->free[i]);
    }
    pool->count = 0;
}

static int best_fit(const matrix_pool *pool, size_t bytes)
{
    int best = -1;
    for (int i = 0; i < pool->count; i++) {
        const size_t size = pool->free[i].capacity;
        if (size >= bytes && size / 2 <= bytes && (best < 0 || size < pool->free[best].capacity)) {
            best = i;
        }
    }
    return best;
}

grail_status matrix_pool_take(matrix_pool *pool, int64_t rows, int64_t columns, matrix *out)
{
    size_t bytes = 0;
    const bool fits = size_multiply((size_t)rows, (size_t)columns, &bytes) &&
                      size_multiply(bytes, backend_value_size(pool->owner), &bytes);
    const int slot = fits ? best_fit(pool, bytes) : -1; /* matrix_new refuses it */
    if (slot < 0) {
        return matrix_new(pool->owner, backend_type(pool->owner), rows, columns, out);
    }
    *out = pool->free[slot];
    out->rows = rows;
    out->columns = columns;
    out->stride = columns;
    pool->free[slot] = pool->free[--pool->count];
    return GRAIL_OK;
}

void matrix_pool_give(matrix_pool *pool, matrix *m)
{
    if (m->allocation == NULL) {
        *m = (matrix){0};
        return;
    }
    if (pool->count == pool->slots) {
        matrix_free(&pool->free[0]);
        pool->free[0] = pool->free[--pool->count];
    }
    pool->free[pool->count++] = *m;
    *m = (matrix){0};
}
