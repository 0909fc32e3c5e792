/* The ranks that a launcher such as mpirun started. Rank 0 alone prints, but for failures. */
#ifndef GRAIL_CLI_RANKS_H
#define GRAIL_CLI_RANKS_H

#include "options.h"

#include <grail/comm.h>

/** Called first: looks for a launcher. */
void ranks_start(void);

/** Refuses a command that does not share out its work, where a launcher started several ranks.
 * Returns an exit code. */
int ranks_check(const command *c);

/** Joins the ranks as --comm says: "auto" (NULL), where a launcher started several; "mpi"; or
 * "none". *out stays NULL without others, and is borrowed: ranks_leave. Returns an exit code. */
int ranks_join(const grail_comm **out);

/** Whether this one prints and writes. */
bool ranks_is_first(void);

/** Called last: waits for the others, or ends them after a failure. Returns `code`. */
int ranks_leave(int code);

#endif
