/* Copies of files of rank 0 on the disk of another rank, for the time of a run. Large ones have no
 * names of their own, but links to what the process holds open: so no end of the program leaves any
 * of them. */
#ifndef GRAIL_PIPELINE_INPUTS_COPIES_H
#define GRAIL_PIPELINE_INPUTS_COPIES_H

#include "pipeline/inputs/file_list.h"

#include <grail/inputs.h>

struct grail_shared_inputs {
    char **made; /* [made_count] directories and files, in the order in which they are made */
    size_t made_count;
    int *held; /* [held_count] descriptors of large copies */
    int held_count;
    char **roots; /* [count] of the copies of an input; NULL: none is needed */
    char **paths; /* [count] that such an input is opened by */
    int count;
    struct grail_shared_inputs *next; /* of those that grail_shared_inputs_remove_all removes */
};

/**
 * Makes a directory below TMPDIR, in it one for each input that is `wanted`, and in that the files
 * of lists[count], with room for what they will hold: a disk that is too small is
 * GRAIL_ERROR_SPACE. *out is owned, also after a failure: grail_shared_inputs_close, which removes
 * what was made.
 */
grail_status copies_make(const file_list *lists, const bool *wanted, int count,
                         grail_shared_inputs **out) GRAIL_MUST_CHECK;

/** Gives a copy, open for writing, the times of the file that it is of. */
grail_status copy_set_times(int descriptor, const char *path,
                            const file_identity *of) GRAIL_MUST_CHECK;

#endif
