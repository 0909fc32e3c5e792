/* The pool: a short list of free matrices, best fit within twice the size. */
#include "exec/pool.h"

enum { POOL_SLOTS = 16 };

struct matrix_pool {
    backend *owner;
    matrix free[POOL_SLOTS];
    int count;
};

grail_status matrix_pool_create(backend *b, matrix_pool **out)
{
    const grail_status status = memory_new(out, 1, sizeof **out);
    if (status == GRAIL_OK) {
        (*out)->owner = b;
    }
    return status;
}

void matrix_pool_free(matrix_pool *pool)
{
    if (pool != NULL) {
        matrix_pool_clear(pool);
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
    if (pool->count == POOL_SLOTS) {
        matrix_free(&pool->free[0]);
        pool->free[0] = pool->free[--pool->count];
    }
    pool->free[pool->count++] = *m;
    *m = (matrix){0};
}
