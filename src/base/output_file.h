/* A file that appears only when it is complete. It is written beside its place, under a name of its
 * own that nobody else has, flushed, and renamed: after a crash the place holds what it held
 * before, or the whole new file. What was not committed is removed; a crash leaves at most a
 * ".grail-*.tmp". */
#ifndef GRAIL_BASE_OUTPUT_FILE_H
#define GRAIL_BASE_OUTPUT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct output_file {
    char *path;      /* where it is to appear; of a symbolic link, the file that it names */
    char *temporary; /* where it is until then; NULL once committed */
    int descriptor;  /* for reading and writing; -1 once committed */
    bool replaces;
} output_file;

/**
 * Begins the file `path`. With `replaces` a regular file there is replaced by the commit; without,
 * whatever is there is GRAIL_ERROR_EXISTS, now and at the commit. What is neither a regular file
 * nor absent is refused. To be followed by output_file_fini, even where it fails.
 */
grail_status output_file_open(const char *path, bool replaces, output_file *out) GRAIL_MUST_CHECK;

/** Flushes the file, gives it its name, and flushes that. */
grail_status output_file_commit(output_file *file) GRAIL_MUST_CHECK;

/** Removes what was not committed. */
void output_file_fini(output_file *file);

/** The file `path` with these bytes, replacing a regular file. */
grail_status output_file_write(const char *path, const void *bytes, size_t size) GRAIL_MUST_CHECK;

/** As rename(2) below two directories, but never onto something: errno is EEXIST then. File systems
 * that cannot promise this look first. */
int rename_to_new(int from_directory, const char *from, int to_directory, const char *to);

#endif
