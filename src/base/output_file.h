/* A file that appears only when it is complete. It is written without a name in the same directory,
 * flushed, and then gets its name: after a crash the path holds either its old contents or the
 * complete new file, and nothing else is left. Where the file system knows no such files it is
 * written as ".grail-*.tmp", which is removed if it was not committed; what a killed run left of
 * them, the next one that writes into the directory removes. */
#ifndef GRAIL_BASE_OUTPUT_FILE_H
#define GRAIL_BASE_OUTPUT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct output_file {
    char *path;       /* where it will appear: for a symbolic link, the file that the link names */
    char *temporary;  /* where it can be opened until the commit; NULL after it */
    bool is_nameless; /* `temporary` is no name that it has, but leads to the descriptor */
    int descriptor;   /* for reading and writing; -1 once committed */
    bool replaces;
} output_file;

/**
 * Begins the file `path`. With `replaces`, the commit replaces an existing regular file; without,
 * anything at the path is GRAIL_ERROR_EXISTS, now and at the commit. Anything but a regular file is
 * always refused. The caller calls output_file_fini afterwards, even after a failure.
 */
grail_status output_file_open(const char *path, bool replaces, output_file *out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_EXISTS where anything has that path: before work whose result is to go there. */
grail_status output_file_check_free(const char *path) GRAIL_MUST_CHECK;

/** Flushes the file, gives it its path, and flushes the directory. */
grail_status output_file_commit(output_file *file) GRAIL_MUST_CHECK;

/** Removes the temporary file if it was not committed. */
void output_file_fini(output_file *file);

/** Like rename(2) below two directories, but never replaces anything: errno is EEXIST instead. On
 * file systems without such a rename it checks first. */
int rename_to_new(int from_directory, const char *from, int to_directory, const char *to);

#endif
