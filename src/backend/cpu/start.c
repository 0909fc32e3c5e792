/* Memory for the first product. BLIS aborts when an allocation fails, so it allocates its blocks
 * here, where a lack of memory can be reported as an error: once all threads have computed a
 * product at the same time, later ones reuse the blocks for packing. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"

#include "base/parallel.h"

enum {
    /* Memory of BLIS per thread: a panel of B of up to 17.1 MB and a block of A of up to 1.5 MB,
     * both for the largest type, which is double complex, and small ones. */
    BLAS_BYTES_OF_THREAD = 18 << 20,
    /* BLIS computes smaller products without packing. */
    ROWS = 512,
    COLUMNS = 256,
    DEPTH = 256,
    PRODUCTS_OF_THREAD = 2,
    MOST_TIMES = 64
};

typedef struct first_products {
    float *matrices; /* one operand, and the results */
    int64_t times;
} first_products;

static void multiply(int64_t begin, int64_t end, void *context)
{
    const first_products *p = context;
    const float *in = p->matrices;
    for (int64_t i = begin; i < end; i++) {
        float *out = p->matrices + (size_t)ROWS * DEPTH + (size_t)i * ROWS * COLUMNS;
        for (int64_t time = 0; time < p->times; time++) {
            blas_sgemm(false, true, ROWS, COLUMNS, DEPTH, 1.0F, in, DEPTH, in, DEPTH, 0.0F, out,
                       COLUMNS);
        }
    }
}

grail_status cpu_start(void)
{
    static _Thread_local int started;
    grail_status status = GRAIL_OK;
    float *matrices = NULL;
    const int threads = parallel_threads();
    const int64_t products = (int64_t)threads * PRODUCTS_OF_THREAD;
    if (threads <= started) {
        return GRAIL_OK;
    }
    blas_start();
    TRY(parallel_start());
    if (!memory_has_room((size_t)threads * BLAS_BYTES_OF_THREAD)) {
        FAIL(GRAIL_ERROR_MEMORY,
             "out of memory: matrix products of %d threads need %d MiB; take fewer threads or more "
             "memory",
             threads, threads * (BLAS_BYTES_OF_THREAD >> 20));
    }
    TRY(memory_new(&matrices, (size_t)(ROWS * (DEPTH + products * COLUMNS)), sizeof matrices[0]));
    /* On a busy machine a thread may come when the others have computed all, and its blocks would
     * be allocated later. Then all compute again, for twice as long. */
    first_products p = {.matrices = matrices, .times = 1};
    do {
        parallel_for((int64_t)threads * PRODUCTS_OF_THREAD, 1, multiply, &p);
        p.times *= 2;
    } while (blas_packing_places() < threads && p.times <= MOST_TIMES);
    started = threads;
out:
    memory_free(matrices);
    return status;
}
