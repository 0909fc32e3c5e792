/* Calls between ranks (grail/comm.h). NULL stands for one rank without others. All ranks call these
 * functions in the same order.
 *
 * A rank that fails, or is cancelled, in what it does by itself returns at once. The public
 * function that it is in ends with comm_end, which tells the others, wherever they are: for every
 * exchange begins with comm_settle, and nothing that can fail on one rank stands between that and
 * the messages. */
#ifndef GRAIL_COMM_COMM_H
#define GRAIL_COMM_COMM_H

#include "base/buffer.h"

#include <grail/comm.h>

#include <stdbool.h>

/** GRAIL_ERROR_ARGUMENT for a struct that is not complete. */
grail_status comm_check(const grail_comm *c) GRAIL_MUST_CHECK;

int comm_rank(const grail_comm *c); /* 0 where there is one */
int comm_size(const grail_comm *c);
bool comm_is_shared(const grail_comm *c); /* more than one rank */

/* The errors name the other rank. These stand behind comm_settle, with what they need at hand. */
grail_status comm_send(const grail_comm *c, int to, const void *bytes,
                       size_t size) GRAIL_MUST_CHECK;
grail_status comm_receive(const grail_comm *c, int from, void *bytes, size_t size) GRAIL_MUST_CHECK;
/** Settles, and gives bytes[size] of rank `root` to all. */
grail_status comm_broadcast(const grail_comm *c, int root, void *bytes,
                            size_t size) GRAIL_MUST_CHECK;
/** The same without settling, directly behind another call. */
grail_status comm_broadcast_next(const grail_comm *c, int root, void *bytes,
                                 size_t size) GRAIL_MUST_CHECK;

/** *text, owned by memory.h and NULL elsewhere, becomes a copy of the root's on all ranks; all fail
 * where one has no memory for it. */
grail_status comm_broadcast_text(const grail_comm *c, int root, char **text) GRAIL_MUST_CHECK;

/** Called by all ranks, each with its own status: where any failed, all fail with the error of the
 * first of them, which names that rank. */
grail_status comm_settle(const grail_comm *c, grail_status status) GRAIL_MUST_CHECK;

/** The same where a public function ends, unless the ranks have all failed with this error before:
 * what a rank failed with by itself is told to the others. */
grail_status comm_end(const grail_comm *c, grail_status status) GRAIL_MUST_CHECK;

/** Whether all ranks hold the same bytes as rank 0: else GRAIL_ERROR_ARGUMENT on all; the text says
 * `what` differs, and the remedy. */
grail_status comm_agree(const grail_comm *c, const char *what, const char *remedy,
                        const void *bytes, size_t size) GRAIL_MUST_CHECK;

#endif
