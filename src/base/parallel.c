#include "base/parallel.h"

#include "base/memory.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* LLVM's OpenMP has it; NULL where another one is loaded. */
extern void kmp_set_blocktime(int milliseconds) __attribute__((weak));

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

/* Starts as many threads as OpenMP will, so that all exist at the same time. */
static grail_status try_threads(int count)
{
    grail_status status = GRAIL_OK;
    pthread_t *threads = NULL;
    gate g = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    int started = 0;
    int code = 0;
    TRY(memory_new(&threads, (size_t)count, sizeof threads[0]));
    while (started < count && code == 0) {
        code = pthread_create(&threads[started], NULL, wait_at, &g);
        started += code == 0 ? 1 : 0;
    }
    open_gate(&g);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    if (code != 0) {
        FAIL(GRAIL_ERROR_MEMORY, "cannot start %d threads: %s; take fewer", count + 1,
             strerrordesc_np(code));
    }
out:
    memory_free(threads);
    return status;
}

/* -- how threads wait --------------------------------------------------------------------------
 *
 * Threads of GNU's OpenMP (oneDNN's are the same) spin for milliseconds when a loop ends, and take
 * the processor from whatever else runs, such as the thread that they wait for. The variables that
 * change this are read when that library is loaded, before this one can set them. But "if there are
 * more OpenMP threads than available CPUs", 100 rounds are all (manual of libgomp, GOMP_SPINCOUNT).
 * So a thread with a team of its own, as many threads as there are processors, sleeps as long as
 * the program runs. */

static bool waiting_is_chosen(void)
{
    return getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL ||
           getenv("KMP_BLOCKTIME") != NULL;
}

static void *hold_idle_team(void *context)
{
    static gate end = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    gate *ready = context;
#pragma omp parallel num_threads(omp_get_num_procs())
    {
#pragma omp barrier /* an empty section would be left out */
    } open_gate(ready);
    return wait_at(&end); /* which nobody opens */
}

/* Where no more threads can be had, the others spin, which is slower but no error. */
static void start_idle_team(void)
{
    enum { BYTES_OF_THREAD = 16 << 20 }; /* of address space, for a stack and little else */
    static gate ready = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t holder;
    const int count = omp_get_num_procs();
    if (!memory_has_room((size_t)count * BYTES_OF_THREAD) ||
        try_threads(count + parallel_threads()) != GRAIL_OK) {
        return;
    }
    if (pthread_create(&holder, NULL, hold_idle_team, &ready) == 0) {
        pthread_detach(holder);
        wait_at(&ready);
    }
}

/* For the loops of the calling thread. */
static void shorten_waiting(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (waiting_is_chosen()) {
        return;
    }
    if (kmp_set_blocktime != NULL) {
        kmp_set_blocktime(0);
    } else {
        pthread_once(&once, start_idle_team);
    }
}

grail_status parallel_start(void)
{
    static _Thread_local int running = 1;
    const int wanted = parallel_threads();
    if (wanted <= running || omp_in_parallel()) {
        return GRAIL_OK;
    }
    CHECK(try_threads(wanted - 1));
    shorten_waiting();
#pragma omp parallel
    {
        /* glibc reserves up to 64 MiB of address space at the first allocation of a thread. This
         * makes it do so now, before others count on that space. */
        void *block = NULL;
        if (memory_new_unset(&block, 1, 1) == GRAIL_OK) {
            memory_free(block);
        }
    }
    running = wanted;
    return GRAIL_OK;
}
