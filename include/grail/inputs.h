#ifndef GRAIL_INPUTS_H
#define GRAIL_INPUTS_H

#include <grail/comm.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An input of a run that rank 0 has. */
typedef struct grail_input {
    const char **path; /* of the caller: how this rank would open it; *path NULL where the run has
                          no such input, on all ranks alike */
    int is_model; /* 1: a model: its weights, and the small files beside them that belong to it.
                     0: a file, or a directory with what lies in it and in its directories, such
                     as texts, or a folder of images for each class */
} grail_input;

/** The copies of rank 0's files that this rank holds. */
typedef struct grail_shared_inputs grail_shared_inputs;

/** Called on rank 0 while files are sent: of `total` bytes, `done` were. Return non-zero to cancel.
 */
typedef int (*grail_share_observer)(void *user, int64_t done, int64_t total);

/**
 * Gives all ranks the inputs of a run that rank 0 alone has, before anything opens them. A rank
 * that sees the very files by its own path (the same names, inodes, sizes and times of change, as
 * on rank 0's machine and on a disk that the machines share) goes on with that. Each other rank
 * writes copies below the directory that TMPDIR names, or /tmp, and its *path becomes that of the
 * copy, valid until *out is closed. What rank 0 has not either stays as it is: opening it says so.
 *
 * Called by all ranks, with the same inputs in the same order. The files are sent in pieces of 8
 * MiB with a checksum each, to all at once where one lacks them. GRAIL_ERROR_SPACE before anything
 * is sent where a disk has no room. One that changes meanwhile is GRAIL_ERROR_IO. The copies have
 * the times of their files. The observer may be NULL. *out is owned, NULL where this rank needs no
 * copies; also where the comm is NULL or has one rank.
 */
GRAIL_API grail_status grail_inputs_share(const grail_comm *comm, const grail_input *inputs,
                                          int count, grail_share_observer observer, void *user,
                                          grail_shared_inputs **out) GRAIL_MUST_CHECK;

/** Removes the copies; what is mapped or open goes on. NULL is allowed. */
GRAIL_API void grail_shared_inputs_close(grail_shared_inputs *inputs);

/** Removes all copies that the process holds, and frees nothing: for a signal handler that ends the
 * program, since it is async-signal-safe. */
GRAIL_API void grail_shared_inputs_remove_all(void);

#ifdef __cplusplus
}
#endif
#endif
