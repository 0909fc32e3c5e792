/* A file that appears only when it is complete. It is written in the same directory under a unique
 * temporary name, flushed, and renamed: after a crash the path holds either its old contents or the
 * complete new file. A file that was not committed is removed; a crash leaves at most a
 * ".grail-*.tmp". */
#ifndef GRAIL_BASE_OUTPUT_FILE_H
#define GRAIL_BASE_OUTPUT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct output_file {
    char *path;      /* where it will appear: for a symbolic link, the file that the link names */
    char *temporary; /* where it is until the commit; NULL after it */
    int descriptor;  /* for reading and writing; -1 once committed */
    bool replaces;
} output_file;

/**
 * Begins the file `path`. With `replaces`, the commit replaces an existing regular file; without,
 * anything at the path is GRAIL_ERROR_EXISTS, now and at the commit. Anything but a regular file is
 * always refused. The caller calls output_file_fini afterwards, even after a failure.
 */
grail_status output_file_open(const char *path, bool replaces, output_file *out) GRAIL_MUST_CHECK;

/** Flushes the file, renames it to its path, and flushes the directory. */
grail_status output_file_commit(output_file *file) GRAIL_MUST_CHECK;

/** Removes the temporary file if it was not committed. */
void output_file_fini(output_file *file);

/** Writes these bytes as the file `path`, replacing a regular file. */
grail_status output_file_write(const char *path, const void *bytes, size_t size) GRAIL_MUST_CHECK;

/** Like rename(2) below two directories, but never replaces anything: errno is EEXIST instead. On
 * file systems without such a rename it checks first. */
int rename_to_new(int from_directory, const char *from, int to_directory, const char *to);

#endif
