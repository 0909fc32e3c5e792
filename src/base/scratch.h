/* Memory in files of a directory, for what need not stay in the machine's memory: the system writes
 * it to disk where memory is short. The files have no names, so no end of the program leaves any.
 */
#ifndef GRAIL_BASE_SCRATCH_H
#define GRAIL_BASE_SCRATCH_H

#include "base/status.h"

#include <stddef.h>

/** Zeroed memory in a new file of `directory`. The room on disk is taken at once: a full disk is
 * GRAIL_ERROR_SPACE here and not a fault later. *out is owned: scratch_unmap. bytes is above 0. */
grail_status scratch_map(const char *directory, size_t bytes, void **out) GRAIL_MUST_CHECK;
/** Whether files can be made there: takes and returns a megabyte, so that a run fails at its start
 * and not where it first needs a large block. */
grail_status scratch_check(const char *directory) GRAIL_MUST_CHECK;
void scratch_unmap(void *memory, size_t bytes);

#endif
