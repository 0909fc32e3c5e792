/* Ranks for tests: processes of this program that are connected by sockets. */
#ifndef GRAIL_TESTS_SUPPORT_RANKS_H
#define GRAIL_TESTS_SUPPORT_RANKS_H

#include <grail/comm.h>

#include <stddef.h>

enum { RANKS_MOST = 8 };

/** Runs `body` in `size` processes at once, each as a rank, and waits for them. The caller must not
 * have run parallel loops before, which processes that are split off cannot. What a rank leaves for
 * the caller lies in memory of ranks_shared. ended[size], unless NULL, become their results; -1 for
 * one that was killed. */
void ranks_run(int size, int (*body)(const grail_comm *comm, void *user), void *user, int *ended);

/** The same, and fails the test unless every rank's result is `expected`. */
void ranks_end_with(int size, int (*body)(const grail_comm *comm, void *user), void *user,
                    int expected);

/** Zeroed memory that the ranks share with the caller; it stays until the program ends. */
void *ranks_shared(size_t size);

#endif
