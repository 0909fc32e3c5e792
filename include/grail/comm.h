#ifndef GRAIL_COMM_H
#define GRAIL_COMM_H

#include <grail/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Ranks: several processes, of one machine or of many, that make one run together. Each makes the
 * same calls with the same options; they share out the samples, and each has the results.
 *
 * A program can pass functions of its own (of MPI, torch.distributed, sockets). They return 0, or
 * anything else when they failed. Messages between two ranks arrive in the order in which they were
 * sent. The library never calls two functions of one comm at once.
 *
 * Where a call of the library fails on one rank, or is cancelled there, it fails on all with that
 * error, and those of the others begin with "rank 1 of 4: ". It returns when all have come to their
 * next exchange. A call waits for the others without a limit: a rank that ends or never makes the
 * call must end the others, by functions that then fail.
 */
typedef struct grail_comm {
    int rank, size; /* 0 <= rank < size */
    void *context;  /* passed to each function */
    int (*send)(void *context, int to, const void *bytes, size_t size);
    int (*receive)(void *context, int from, void *bytes, size_t size);
    /* from rank `root` to all */
    int (*broadcast)(void *context, int root, void *bytes, size_t size);
    GRAIL_ROOM(4);
} grail_comm;

/** How many ranks the launcher started that started this program, such as mpirun or srun, by the
 * environment; 0 without a launcher. *rank becomes the own one. */
GRAIL_API int grail_comm_launched(int *rank);

/**
 * Joins the ranks of a launcher by MPI, which is loaded as a module: GRAIL_MPI names the file if it
 * is not beside the library. May be called once in a program. *out is owned: grail_comm_close, when
 * every rank is done; it waits for all.
 */
GRAIL_API grail_status grail_comm_open_mpi(const grail_comm **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_comm_close(const grail_comm *comm); /* NULL is allowed */

/** Ends the program and those of all other ranks at once, each with this exit code. For programs:
 * the library itself does not call it. `comm` is of grail_comm_open_mpi. */
GRAIL_API void grail_comm_end_all(const grail_comm *comm, int code);

#ifdef __cplusplus
}
#endif
#endif
