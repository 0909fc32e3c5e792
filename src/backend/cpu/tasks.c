#include "backend/cpu/tasks.h"

#include "base/parallel.h"

#include <stdatomic.h>

typedef struct tasks {
    int64_t count;
    _Atomic int64_t next;
    size_t scratch_floats;
    float *scratch;
    task_body body;
    void *context;
} tasks;

/* Each worker owns one scratch block and takes tasks until none is left. */
static void work(int64_t worker, int64_t end, void *context)
{
    (void)end;
    tasks *t = context;
    float *scratch = t->scratch + (size_t)worker * t->scratch_floats;
    for (int64_t i = atomic_fetch_add(&t->next, 1); i < t->count;
         i = atomic_fetch_add(&t->next, 1)) {
        t->body(i, worker, scratch, t->context);
    }
}

grail_status tasks_run(int64_t count, size_t scratch_floats, task_body body, void *context)
{
    grail_status status = GRAIL_OK;
    tasks t = {.count = count, .scratch_floats = scratch_floats, .body = body, .context = context};
    const int64_t threads = parallel_threads();
    const int64_t workers = count < threads ? count : threads;
    size_t floats = 0;
    if (!size_multiply((size_t)workers, scratch_floats, &floats)) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory: cannot allocate %lld blocks of %zu floats",
             (long long)workers, scratch_floats);
    }
    TRY(memory_new_unset(&t.scratch, floats, sizeof *t.scratch));
    parallel_for(workers, 1, work, &t);

out:
    memory_free(t.scratch);
    return status;
}
