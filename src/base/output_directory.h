/* A directory that appears only when it is complete. While it is made there is
 *
 *   OUTPUT.partial/grail-state.jsonl   records (base/records.h), locked by the program that works
 *   OUTPUT.partial/result/             the files of the result
 *
 * and the commit renames `result` to OUTPUT. A crash at any moment leaves OUTPUT.partial, to be
 * continued with the records that it holds, or the finished OUTPUT beside a state that says so,
 * which is continued by taking it away. Only files that were declared are ever removed, and a
 * partial that is not recognised is left alone. */
#ifndef GRAIL_BASE_OUTPUT_DIRECTORY_H
#define GRAIL_BASE_OUTPUT_DIRECTORY_H

#include "base/json.h"

typedef struct output_directory output_directory;

/**
 * Opens the output at `path`, where nothing may be, and locks it: its partial is made where there
 * is none. One that an interrupted run left is GRAIL_ERROR_EXISTS without `resume`. So is a partial
 * that another program works in, or that is not one, and neither is touched. *out is owned:
 * output_directory_close.
 */
grail_status output_directory_open(const char *path, bool resume,
                                   output_directory **out) GRAIL_MUST_CHECK;

/** Records of the run that is continued, an array; empty for a new one. Borrowed. */
const json_t *output_directory_records(const output_directory *o);
/** Whether the result was committed before, and only the state is left to be taken away. */
bool output_directory_is_committed(const output_directory *o);

/** For messages, "OUTPUT.partial", and where files of the result are made, "OUTPUT.partial/result".
 */
const char *output_directory_partial(const output_directory *o);
const char *output_directory_result(const output_directory *o);

/** Says that the result has a file of this base name. All files are declared before any is made. */
grail_status output_directory_declare(output_directory *o, const char *name) GRAIL_MUST_CHECK;

/** The first record, then the directory of the result: what a new run does before all else. */
grail_status output_directory_begin(output_directory *o, const json_t *record) GRAIL_MUST_CHECK;

/** Appends a record, on disk when it returns. */
grail_status output_directory_record(output_directory *o, const json_t *record) GRAIL_MUST_CHECK;

/** Makes a declared file of the result, or makes it anew, and flushes it. */
grail_status output_directory_write(output_directory *o, const char *name, const void *bytes,
                                    size_t size) GRAIL_MUST_CHECK;

/** Removes the declared files that are there, so that the result can be laid out anew. */
void output_directory_clear(output_directory *o);

/** Gives the result its name and removes the state. Where this fails, nothing of the result is
 * lost: it has its name, and the message says so, or it is still in the partial. */
grail_status output_directory_commit(output_directory *o) GRAIL_MUST_CHECK;

/** Removes the partial with all that was declared. Other files stay, and the directory with them.
 */
void output_directory_abandon(output_directory *o);

/** Gives up the lock; what is there stays. NULL is allowed. */
void output_directory_close(output_directory *o);

#endif
