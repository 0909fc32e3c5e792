/* Files: opening, whole reads, read-only maps, locks, paths and directories. Every message names
 * the path and what the system said; a full disk is GRAIL_ERROR_SPACE. How a file comes to be
 * written is output_file.h's and output_directory.h's. */
#ifndef GRAIL_BASE_FILE_H
#define GRAIL_BASE_FILE_H

#include "base/buffer.h"

/** What tells that a file is still the one that was opened, with the contents it had. */
typedef struct file_identity {
    uint64_t device, inode;
    int64_t size, seconds, nanoseconds; /* when it was last modified */
} file_identity;

/** A file mapped read-only. Zero-size files have data NULL. */
typedef struct file_map {
    const unsigned char *data;
    size_t size;
    file_identity identity;
} file_map;

/**
 * Opens a file with open(2)'s flags, below `directory` (AT_FDCWD: the working directory), closed in
 * programs that are started. -1 with errno on failure. Never one of the descriptors 0 to 2, which a
 * caller may have closed: what is later printed would go into the file.
 */
int file_open(int directory, const char *path, int flags);

/** Of a regular file; symbolic links are followed. */
grail_status file_identify(const char *path, file_identity *out) GRAIL_MUST_CHECK;

grail_status file_map_open(file_map *map, const char *path) GRAIL_MUST_CHECK;
void file_map_close(file_map *map);

/** Tells the system that these bytes will not be read again soon, so they stop counting as ours. */
void file_map_release(const file_map *map, size_t offset, size_t size);

/** Appends the whole file to `out`; a file beyond `maximum` bytes is refused. */
grail_status file_read(const char *path, size_t maximum, buffer *out) GRAIL_MUST_CHECK;
/** The same of an open file; `path` is for messages. */
grail_status file_read_open(int descriptor, const char *path, size_t maximum,
                            buffer *out) GRAIL_MUST_CHECK;

/** Reads all bytes at `offset`; a file that ends before them is GRAIL_ERROR_IO. */
grail_status file_read_at(int descriptor, const char *path, void *bytes, size_t size,
                          uint64_t offset) GRAIL_MUST_CHECK;

/** Writes all bytes at `offset`. `path` is for messages. */
grail_status file_write_at(int descriptor, const char *path, const void *bytes, size_t size,
                           uint64_t offset) GRAIL_MUST_CHECK;

/**
 * Locks a file opened for writing until the descriptor is closed, by whatever ends the program too.
 * *taken says that another open file holds it. Without lock support in the file system it is not
 * locked, and nothing is said.
 * `path` is for messages.
 */
grail_status file_lock(int descriptor, const char *path, bool *taken) GRAIL_MUST_CHECK;

bool file_exists(const char *path);
bool file_is_directory(const char *path);

/** "directory/name"; the caller frees it. */
grail_status path_join(char **out, const char *directory, const char *name) GRAIL_MUST_CHECK;

/** A path without slashes at its end, which say nothing of a directory; the caller frees it. */
grail_status path_trim(char **out, const char *path) GRAIL_MUST_CHECK;

/** The directory that a path lies in, "." where it names none; the caller frees it. */
grail_status path_parent(char **out, const char *path) GRAIL_MUST_CHECK;

/** Flushes a file, or the entries of a directory, to disk. `path` is for messages. */
grail_status file_flush(int descriptor, const char *path) GRAIL_MUST_CHECK;

/** Flushes the directory that `path` lies in: a name made, changed or removed there lasts. */
grail_status path_flush_parent(const char *path) GRAIL_MUST_CHECK;

/** Error for a failed system call on `path`, from errno. `action` is "cannot open" and the like. */
grail_status error_from_errno(const char *action, const char *path);

#endif
