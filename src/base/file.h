/* Files: whole reads, read-only maps, atomic writes, paths and directories. Every message names the
 * path and what the system said; a full disk is GRAIL_ERROR_SPACE. */
#ifndef GRAIL_BASE_FILE_H
#define GRAIL_BASE_FILE_H

#include "base/buffer.h"

/** A file mapped read-only. Zero-size files have data NULL. */
typedef struct file_map {
    const unsigned char *data;
    size_t size;
} file_map;

grail_status file_map_open(file_map *map, const char *path) GRAIL_MUST_CHECK;
void file_map_close(file_map *map);

/** Tells the system that these bytes will not be read again soon, so they stop counting as ours. */
void file_map_release(const file_map *map, size_t offset, size_t size);

/** Appends the whole file to `out`; a file beyond `maximum` bytes is refused. */
grail_status file_read(const char *path, size_t maximum, buffer *out) GRAIL_MUST_CHECK;

/** Writes path atomically: temporary file beside it, fsync, rename. */
grail_status file_write_atomic(const char *path, const void *bytes, size_t size) GRAIL_MUST_CHECK;

/** Copies a regular file, fsynced. */
grail_status file_copy(const char *from, const char *to) GRAIL_MUST_CHECK;

/** Writes all bytes at `offset`. `path` is for messages. */
grail_status file_write_at(int descriptor, const char *path, const void *bytes, size_t size,
                           uint64_t offset) GRAIL_MUST_CHECK;

/**
 * Locks a file opened for writing until the descriptor is closed, by whatever ends the program too.
 * *taken says that another open file holds it; where the file system has no locks, none does.
 * `path` is for messages.
 */
grail_status file_lock(int descriptor, const char *path, bool *taken) GRAIL_MUST_CHECK;

bool file_exists(const char *path);
bool file_is_directory(const char *path);

/** "directory/name"; the caller frees it. */
grail_status path_join(char **out, const char *directory, const char *name) GRAIL_MUST_CHECK;

/** Flushes a directory's entries to disk. */
grail_status directory_sync(const char *path) GRAIL_MUST_CHECK;

/** Error for a failed system call on `path`, from errno. `action` is "cannot open" and the like. */
grail_status error_from_errno(const char *action, const char *path);

#endif
