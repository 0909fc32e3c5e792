/* The one place that starts threads for our own loops. */
#ifndef GRAIL_BASE_PARALLEL_H
#define GRAIL_BASE_PARALLEL_H

#include "base/status.h"

#include <stdint.h>

/** Works on the indices begin .. end-1. */
typedef void (*parallel_body)(int64_t begin, int64_t end, void *context);

/**
 * Runs `body` over 0 .. count-1 cut into pieces of at most `grain` indices. The cut does not depend
 * on the number of threads, so a body that writes only its own indices gives the same bits always.
 * Pieces are handed out in order; a call from inside a body runs serially.
 */
void parallel_for(int64_t count, int64_t grain, parallel_body body, void *context);

/** Threads that parallel_for uses: OMP_NUM_THREADS or the cores, unless set. */
int parallel_threads(void);
void parallel_set_threads(int threads);

/**
 * Starts the threads of parallel_for for the calling thread, or says that there cannot be so many:
 * OpenMP itself ends the program then. Later calls do nothing unless there are to be more.
 */
grail_status parallel_start(void) GRAIL_MUST_CHECK;

#endif
