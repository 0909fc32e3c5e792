/* Calls between ranks (grail/comm.h). NULL stands for one rank without others. All ranks call these
 * functions in the same order. So a rank that fails in what it does by itself must not go on to
 * another call, or end, before the others know: comm_settle, with nothing shared inside. */
#ifndef GRAIL_COMM_COMM_H
#define GRAIL_COMM_COMM_H

#include "base/status.h"

#include <grail/comm.h>

#include <stdbool.h>

/** GRAIL_ERROR_ARGUMENT for a struct that is not complete. */
grail_status comm_check(const grail_comm *c) GRAIL_MUST_CHECK;

int comm_rank(const grail_comm *c); /* 0 where there is one */
int comm_size(const grail_comm *c);
bool comm_is_shared(const grail_comm *c); /* more than one rank */

/* The errors name both ranks. */
grail_status comm_send(const grail_comm *c, int to, const void *bytes,
                       size_t size) GRAIL_MUST_CHECK;
grail_status comm_receive(const grail_comm *c, int from, void *bytes, size_t size) GRAIL_MUST_CHECK;
grail_status comm_broadcast(const grail_comm *c, int root, void *bytes,
                            size_t size) GRAIL_MUST_CHECK;

/** *text, owned by memory.h and NULL elsewhere, becomes a copy of the root's on all ranks; all fail
 * where one has no memory for it. */
grail_status comm_broadcast_text(const grail_comm *c, int root, char **text) GRAIL_MUST_CHECK;

/** Called by all ranks, each with its own status: where any failed, all fail with the error of the
 * first of them, which names that rank. */
grail_status comm_settle(const grail_comm *c, grail_status status) GRAIL_MUST_CHECK;

/** Whether all ranks hold the same bytes as rank 0: else GRAIL_ERROR_ARGUMENT on all; the text says
 * `what` differs, and the remedy. */
grail_status comm_agree(const grail_comm *c, const char *what, const char *remedy,
                        const void *bytes, size_t size) GRAIL_MUST_CHECK;

#endif
