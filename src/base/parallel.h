/* The one place that starts threads for our own loops. */
#ifndef GRAIL_BASE_PARALLEL_H
#define GRAIL_BASE_PARALLEL_H

#include "base/status.h"

#include <stdint.h>

/** Works on the indices begin .. end-1. */
typedef void (*parallel_body)(int64_t begin, int64_t end, void *context);

/**
 * Runs `body` over 0 .. count-1, cut into pieces of at most `grain` indices. The cut does not
 * depend on the number of threads, so a body that writes only its own indices always gives the same
 * bits. Pieces are handed out in order. A call from inside a body runs serially.
 */
void parallel_for(int64_t count, int64_t grain, parallel_body body, void *context);

/** Number of threads that parallel_for uses: the number set, else OMP_NUM_THREADS, else the number
 * of cores. */
int parallel_threads(void);
void parallel_set_threads(int threads);

/**
 * Starts the threads that parallel_for uses when this thread calls it. Too many are
 * GRAIL_ERROR_MEMORY here; OpenMP itself would end the program. Later calls do nothing unless they
 * need more threads.
 */
grail_status parallel_start(void) GRAIL_MUST_CHECK;

#endif
