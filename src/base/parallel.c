#include "base/parallel.h"

#include "base/memory.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

int parallel_threads(void)
{
    return omp_get_max_threads();
}

void parallel_set_threads(int threads)
{
    omp_set_num_threads(threads > 0 ? threads : 1);
}

void parallel_for(int64_t count, int64_t grain, parallel_body body, void *context)
{
    const int64_t step = grain > 0 ? grain : 1;
    if (count <= step || omp_in_parallel()) {
        if (count > 0) {
            body(0, count, context);
        }
        return;
    }
    const int64_t pieces = (count + step - 1) / step;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t begin = p * step;
        const int64_t end = begin + step < count ? begin + step : count;
        body(begin, end, context);
    }
}

/* Makes threads wait until all of them are started. */
typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open;
} gate;

static void *wait_at(void *context)
{
    gate *g = context;
    pthread_mutex_lock(&g->mutex);
    while (!g->open) {
        pthread_cond_wait(&g->changed, &g->mutex);
    }
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

/* Starts as many threads as OpenMP will, so that all exist at the same time. Returns 0, or the
 * error code of the thread that could not be started. */
static int try_threads(int count, pthread_t threads[])
{
    gate g = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    int started = 0;
    int code = 0;
    while (started < count && code == 0) {
        code = pthread_create(&threads[started], NULL, wait_at, &g);
        started += code == 0 ? 1 : 0;
    }
    open_gate(&g);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return code;
}

/* glibc reserves up to 64 MiB of address space at the first allocation of a thread. This makes it
 * do so now, before others count on that space. */
static void allocate_once(void)
{
    void *block = NULL;
    if (memory_new_unset(&block, 1, 1) == GRAIL_OK) {
        memory_free(block);
    }
}

grail_status parallel_start(void)
{
    static _Thread_local int running = 1;
    grail_status status = GRAIL_OK;
    pthread_t *threads = NULL;
    const int wanted = parallel_threads();
    if (wanted <= running || omp_in_parallel()) {
        return GRAIL_OK;
    }
    TRY(memory_new(&threads, (size_t)wanted - 1, sizeof threads[0]));
    const int code = try_threads(wanted - 1, threads);
    if (code != 0) {
        FAIL(GRAIL_ERROR_MEMORY, "cannot start %d threads: %s; take fewer", wanted,
             strerrordesc_np(code));
    }
#pragma omp parallel
    {
        allocate_once();
    }
    running = wanted;
out:
    memory_free(threads);
    return status;
}
