/* A directory that appears only when it is complete. While it is made there is
 *
 *   OUTPUT.partial/grail-state.jsonl   records (base/records.h), locked by the program that works
 *   OUTPUT.partial/grail-saved-0, -1   what the run keeps to go on; which of both is in a record
 *   OUTPUT.partial/result/             the files of the result
 *
 * and the commit renames `result` to OUTPUT. A crash at any moment leaves one of two things:
 * OUTPUT.partial, whose records let a run continue; or the finished OUTPUT beside a state that says
 * so, and continuing removes that state. Only declared files are ever removed, and a partial
 * directory that is not recognised stays untouched. */
#ifndef GRAIL_BASE_OUTPUT_DIRECTORY_H
#define GRAIL_BASE_OUTPUT_DIRECTORY_H

#include "base/json.h"

typedef struct output_directory output_directory;

/**
 * Opens the output at `path`, where nothing may exist yet, and locks it; creates the partial
 * directory if there is none. GRAIL_ERROR_EXISTS when an interrupted run left a partial directory
 * and `resume` is false, when another program is using it, or when it is not a partial directory;
 * it stays untouched. *out is owned: output_directory_close.
 */
grail_status output_directory_open(const char *path, bool resume,
                                   output_directory **out) GRAIL_MUST_CHECK;

/** Looks at what an interrupted run towards `path` left, without locking it: *out has its records,
 * none where there are none that can be read, or the result is committed; nothing can be written to
 * it. *out is owned: output_directory_close. */
grail_status output_directory_look(const char *path, output_directory **out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_EXISTS, which says that an interrupted run is there and what to do. */
grail_status output_directory_error_begun(const output_directory *o) GRAIL_MUST_CHECK;

/** All records of the run so far, as an array: those of the run that is being continued, then those
 * added since. Empty for a new run. Borrowed. */
const json_t *output_directory_records(const output_directory *o);
/** Whether the result is already committed, so that only the state remains to be removed. */
bool output_directory_is_committed(const output_directory *o);

/** "OUTPUT", "OUTPUT.partial" for messages, and "OUTPUT.partial/result", where the files of the
 * result are made. */
const char *output_directory_path(const output_directory *o);
const char *output_directory_partial(const output_directory *o);
const char *output_directory_result(const output_directory *o);

/** Says that the result has a file of this base name, or "FOLDER/NAME" in a folder of its own. All
 * files are declared before any is made. */
grail_status output_directory_declare(output_directory *o, const char *name) GRAIL_MUST_CHECK;

/** Writes the first record, then creates the directory of the result. A new run calls it first. */
grail_status output_directory_begin(output_directory *o, const json_t *record) GRAIL_MUST_CHECK;

/** Appends a record; the record is on disk when the function returns. */
grail_status output_directory_record(output_directory *o, const json_t *record) GRAIL_MUST_CHECK;

/** Creates or replaces a declared file of the result, and flushes it. */
grail_status output_directory_write(output_directory *o, const char *name, const void *bytes,
                                    size_t size) GRAIL_MUST_CHECK;

/** Opens one of the two files (0 or 1) that a run keeps to go on, to write it anew or to read it.
 * *descriptor is the caller's to close, *path to free; both are for file_write_at and file_read_at.
 */
grail_status output_directory_open_saved(output_directory *o, int which, bool write,
                                         int *descriptor, char **path) GRAIL_MUST_CHECK;

/** Removes the declared files that exist, and their folders, so that the result can be laid out
 * again. */
void output_directory_clear(output_directory *o);

/** Gives the result its name and removes the state. If this fails, nothing of the result is lost:
 * either it already has its name, and the message says so, or it is still in the partial directory.
 */
grail_status output_directory_commit(output_directory *o) GRAIL_MUST_CHECK;

/** Removes the declared files and the partial directory. Other files stay, and then so does the
 * directory. */
void output_directory_abandon(output_directory *o);

/** Releases the lock and removes nothing. NULL is allowed. */
void output_directory_close(output_directory *o);

#endif
