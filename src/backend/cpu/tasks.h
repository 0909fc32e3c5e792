/* Runs tasks of unequal size that need scratch memory: one block per thread, not per task. */
#ifndef GRAIL_BACKEND_CPU_TASKS_H
#define GRAIL_BACKEND_CPU_TASKS_H

#include "base/memory.h"

/** Does task 0 <= task < count; no other task may depend on it. `scratch` is uninitialised. Tasks
 * of one worker, 0 <= worker < parallel_threads(), come after each other. */
typedef void (*task_body)(int64_t task, int64_t worker, float *scratch, void *context);

/**
 * Does all tasks, each on one thread, handed out in order as threads become free. `scratch_floats`
 * is the size of each thread's block; all are allocated before the first task starts.
 */
grail_status tasks_run(int64_t count, size_t scratch_floats, task_body body,
                       void *context) GRAIL_MUST_CHECK;

#endif
