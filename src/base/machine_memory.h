/* How much memory this process can still take without pushing anything out: what the system calls
 * available, which counts the page cache as free, and what its control groups leave. */
#ifndef GRAIL_BASE_MACHINE_MEMORY_H
#define GRAIL_BASE_MACHINE_MEMORY_H

#include <stdint.h>

/** In bytes; -1 where the system does not say. */
typedef struct machine_memory {
    int64_t total;     /* the machine's, or less by a limit of a control group */
    int64_t available; /* at this moment */
} machine_memory;

/** Reads /proc and /sys below `root`, "" for this machine. Control groups of both versions count,
 * and with version 2 those above the process's own. */
machine_memory machine_memory_read(const char *root);

#endif
