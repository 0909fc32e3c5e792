/* Files: opening, reading in full, read-only maps, locks, paths and directories. Every message
 * names the path and the reason that the system gave; a full disk is GRAIL_ERROR_SPACE.
 * output_file.h and record.h write files. */
#ifndef GRAIL_BASE_FILE_H
#define GRAIL_BASE_FILE_H

#include "base/buffer.h"

/** Identifies a file and its contents: while nothing here changes, it is the file that was opened,
 * unmodified. */
typedef struct file_identity {
    uint64_t device, inode;
    int64_t size, seconds, nanoseconds; /* the size, and the time of the last change */
} file_identity;

/** A file mapped read-only. Zero-size files have data NULL. */
typedef struct file_map {
    const unsigned char *data;
    size_t size;
    file_identity identity;
} file_map;

/**
 * Opens a file with open(2)'s flags, below `directory` (AT_FDCWD: the working directory), and
 * closes it in programs that are started. Returns -1 with errno on failure. Never returns one of
 * the descriptors 0 to 2, which a caller may have closed: later output of the program would go into
 * the file.
 */
int file_open(int directory, const char *path, int flags);

/** Identifies a regular file. Symbolic links are followed. */
grail_status file_identify(const char *path, file_identity *out) GRAIL_MUST_CHECK;

/** Does the same for an open file; `path` is for messages. */
grail_status file_identify_open(int descriptor, const char *path,
                                file_identity *out) GRAIL_MUST_CHECK;

grail_status file_map_open(file_map *map, const char *path) GRAIL_MUST_CHECK;
void file_map_close(file_map *map);

/** Tells the system that these bytes will not be read again soon, so that they no longer count as
 * memory of this process. */
void file_map_release(const file_map *map, size_t offset, size_t size);

/** Appends the complete file to `out`. Refuses a file of more than `maximum` bytes. */
grail_status file_read(const char *path, size_t maximum, buffer *out) GRAIL_MUST_CHECK;
/** Does the same for an open file; `path` is for messages. */
grail_status file_read_open(int descriptor, const char *path, size_t maximum,
                            buffer *out) GRAIL_MUST_CHECK;

/** Reads all bytes at `offset`; a file that ends before them is GRAIL_ERROR_IO. */
grail_status file_read_at(int descriptor, const char *path, void *bytes, size_t size,
                          uint64_t offset) GRAIL_MUST_CHECK;

/** Writes all bytes at `offset`. `path` is for messages. */
grail_status file_write_at(int descriptor, const char *path, const void *bytes, size_t size,
                           uint64_t offset) GRAIL_MUST_CHECK;

/**
 * Locks a file opened for writing until the descriptor is closed, which any end of the program
 * does. *taken becomes true when another open file holds the lock. Without lock support in the file
 * system the file stays unlocked, and the function succeeds. `path` is for messages.
 */
grail_status file_lock(int descriptor, const char *path, bool *taken) GRAIL_MUST_CHECK;

/** Also true where the system does not say whether the file is there: opening it then tells why,
 * and a file that cannot be read is not taken for one that is missing. */
bool file_exists(const char *path);
bool file_is_directory(const char *path);

/** "directory/name"; the caller frees it. */
grail_status path_join(char **out, const char *directory, const char *name) GRAIL_MUST_CHECK;

/** The same where that exists, NULL where it does not. */
grail_status path_find(char **out, const char *directory, const char *name) GRAIL_MUST_CHECK;

/** A copy of a path without the slashes at its end; the caller frees it. */
grail_status path_trim(char **out, const char *path) GRAIL_MUST_CHECK;

/** The directory that contains a path, or "." when the path names none; the caller frees it. */
grail_status path_parent(char **out, const char *path) GRAIL_MUST_CHECK;

/** Flushes a file, or the entries of a directory, to disk. `path` is for messages. */
grail_status file_flush(int descriptor, const char *path) GRAIL_MUST_CHECK;

/** Flushes the directory that contains `path`, so that a name created, changed or removed there
 * survives a crash. */
grail_status path_flush_parent(const char *path) GRAIL_MUST_CHECK;

/** Sets the error for a failed system call on `path`, from errno. `action` begins the message, for
 * example "cannot open". */
grail_status error_from_errno(const char *action, const char *path);

#endif
