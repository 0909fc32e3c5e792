/* Keeps freed matrices of an instance for reuse, because a fresh large one costs page faults. */
#ifndef GRAIL_EXEC_POOL_H
#define GRAIL_EXEC_POOL_H

#include "backend/backend.h"

typedef struct matrix_pool matrix_pool;

/** A pool of the instance's values. *out is owned: matrix_pool_free. */
grail_status matrix_pool_create(backend *b, matrix_pool **out) GRAIL_MUST_CHECK;
void matrix_pool_free(matrix_pool *pool); /* NULL is allowed */

/** Keeps up to `count` free matrices from now on, for callers that need as many at once again and
 * again; and as many as usual. */
grail_status matrix_pool_widen(matrix_pool *pool, int count) GRAIL_MUST_CHECK;
void matrix_pool_narrow(matrix_pool *pool);

/** An unset, packed matrix; give it back to the same pool. */
grail_status matrix_pool_take(matrix_pool *pool, int64_t rows, int64_t columns,
                              matrix *out) GRAIL_MUST_CHECK;
/** Takes *m over and leaves a zeroed one; a zeroed one is allowed. */
void matrix_pool_give(matrix_pool *pool, matrix *m);

/** Frees the matrices that are not in use. */
void matrix_pool_clear(matrix_pool *pool);

#endif
