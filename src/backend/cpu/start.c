/* Memory for the first product. BLIS aborts when an allocation fails, so it allocates its blocks
 * here, where a lack of memory can be reported as an error: once each thread has computed a
 * product, later ones reuse the blocks for packing. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"

#include "base/parallel.h"

enum {
    /* Memory of BLIS per thread: a panel of B of up to 8.4 MB, a block of A of up to 1.5 MB, and
     * small ones. */
    BLAS_BYTES_OF_THREAD = 16 << 20,
    /* BLIS computes smaller products without packing. */
    ROWS = 512,
    COLUMNS = 256,
    DEPTH = 256,
    PRODUCTS_OF_THREAD = 2 /* so that all threads compute at the same time */
};

static void multiply(int64_t begin, int64_t end, void *context)
{
    float *matrices = context;
    for (int64_t i = begin; i < end; i++) {
        blas_sgemm(false, true, ROWS, COLUMNS, DEPTH, 1.0F, matrices, DEPTH, matrices, DEPTH, 0.0F,
                   matrices + (size_t)ROWS * DEPTH + (size_t)i * ROWS * COLUMNS, COLUMNS);
    }
}

grail_status cpu_start(void)
{
    static _Thread_local int started;
    grail_status status = GRAIL_OK;
    float *matrices = NULL; /* one operand, and the results */
    const int threads = parallel_threads();
    const int64_t products = (int64_t)threads * PRODUCTS_OF_THREAD;
    if (threads <= started) {
        return GRAIL_OK;
    }
    TRY(blas_start());
    TRY(parallel_start());
    if (!memory_has_room((size_t)threads * BLAS_BYTES_OF_THREAD)) {
        FAIL(GRAIL_ERROR_MEMORY,
             "out of memory: matrix products of %d threads need %d MiB; take fewer threads or more "
             "memory",
             threads, threads * (BLAS_BYTES_OF_THREAD >> 20));
    }
    TRY(memory_new(&matrices, (size_t)(ROWS * (DEPTH + products * COLUMNS)), sizeof matrices[0]));
    parallel_for(products, 1, multiply, matrices);
    started = threads;
out:
    memory_free(matrices);
    return status;
}
