/* The record of a run: a log of entries that only grows, files beside it, and a result that appears
 * only when it is complete. While it is made there is
 *
 *   OUTPUT.partial/grail-state.jsonl   the entries, locked by the program that works
 *   OUTPUT.partial/grail-saved-0, -1   what the run keeps to go on; which of both is in an entry
 *   OUTPUT.partial/result/             the files of the result
 *
 * and the commit renames `result`, or the only file of the result, to OUTPUT. A crash at any moment
 * leaves one of two things: OUTPUT.partial, whose entries let a run continue; or the finished
 * OUTPUT beside a state that says so, and continuing removes that state. Only declared files are
 * ever removed, and a partial directory that is not recognised stays untouched.
 *
 * An entry is a JSON object that is found by its keys, and is on disk when the call that adds it
 * returns. It is a line {"record":...,"crc32":"89abcdef"} with the checksum of the text between
 * "record": and ,"crc32". A crash may leave a torn line, which has no line end; the next one
 * replaces it. */
#ifndef GRAIL_BASE_RECORD_H
#define GRAIL_BASE_RECORD_H

#include "base/json.h"

typedef struct run_record run_record;

/**
 * Opens the record of the output at `path`, where nothing may exist yet, and locks it; creates the
 * partial directory if there is none. The output is a directory, or the file that is made under the
 * name `only`, which is declared. GRAIL_ERROR_EXISTS when an interrupted run left a partial
 * directory and `resume` is false, when another program is using it, or when it is not a partial
 * directory; it stays untouched. *out is owned: record_close.
 */
grail_status record_open(const char *path, const char *only, bool resume,
                         run_record **out) GRAIL_MUST_CHECK;

/** Refuses, before a long way to it, what record_open of a directory would refuse for what lies
 * there; leaves nothing new. */
grail_status record_check(const char *path, bool resume) GRAIL_MUST_CHECK;

/** Looks at what an interrupted run towards `path` left, without locking it: *out has its entries,
 * none where there are none that can be read, or the result is committed; nothing can be written to
 * it. *out is owned: record_close. */
grail_status record_look(const char *path, run_record **out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_EXISTS, which says that an interrupted run is there and what to do. */
grail_status record_error_begun(const run_record *r) GRAIL_MUST_CHECK;

/** The first entry, which says of which run this is; NULL for a new run. Borrowed. */
const json_t *record_first(const run_record *r);
/** The last of the entries behind it that has this key, with this number there unless `number` is
 * NULL; or NULL. Borrowed. */
const json_t *record_get(const run_record *r, const char *key, const int *number);
/** Whether the result is already committed, so that only the state remains to be removed. */
bool record_is_committed(const run_record *r);

/** "OUTPUT", "OUTPUT.partial" for messages, and "OUTPUT.partial/result", where the files of the
 * result are made. */
const char *record_path(const run_record *r);
const char *record_partial(const run_record *r);
const char *record_result(const run_record *r);

/** Says that the result has a file of this base name, or "FOLDER/NAME" in a folder of its own. All
 * files are declared before any is made. */
grail_status record_declare(run_record *r, const char *name) GRAIL_MUST_CHECK;

/** Adds an entry; behind the first one, with which a run begins, the directory of the result is
 * there. */
grail_status record_put(run_record *r, const json_t *entry) GRAIL_MUST_CHECK;

/** Creates or replaces a declared file of the result, and flushes it. */
grail_status record_write(run_record *r, const char *name, const void *bytes,
                          size_t size) GRAIL_MUST_CHECK;

/** Opens one of the two files (0 or 1) that a run keeps to go on, to write it anew or to read it.
 * *descriptor is the caller's to close, *path to free; both are for file_write_at and file_read_at.
 */
grail_status record_open_saved(const run_record *r, int which, bool write, int *descriptor,
                               char **path) GRAIL_MUST_CHECK;

/** Removes the declared files that exist, and their folders, so that the result can be laid out
 * again. */
void record_clear(run_record *r);

/** Gives the result its name and removes the state. If this fails, nothing of the result is lost:
 * either it already has its name, and the message says so, or it is still in the partial directory.
 */
grail_status record_commit(run_record *r) GRAIL_MUST_CHECK;

/** Removes the declared files and the partial directory. Other files stay, and then so does the
 * directory. */
void record_abandon(run_record *r);

/** Releases the lock and removes nothing. NULL is allowed. */
void record_close(run_record *r);

/** Appends the line of an entry. */
grail_status record_append_line(const json_t *entry, buffer *out) GRAIL_MUST_CHECK;
/**
 * The entries of a log as an array; *out is owned. A last line without a line end was being written
 * when its program ended, so it does not count. Any other line that is no entry, or does not match
 * its checksum, is GRAIL_ERROR_FORMAT; the message names `path` and the line.
 */
grail_status record_parse(const char *path, const void *text, size_t size,
                          json_t **out) GRAIL_MUST_CHECK;

#endif
