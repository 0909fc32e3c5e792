/* Reads the files of multiple-choice tasks, which are JSON lines. */
#ifndef GRAIL_FORMAT_TEXT_TASK_FILE_H
#define GRAIL_FORMAT_TEXT_TASK_FILE_H

#include "format/text/task_documents.h"

/** Whether `name` is a known task, or ends with .jsonl or .jsonl.gz: then it is a file of lines
 * with "context", "choices" and "answer". Else GRAIL_ERROR_ARGUMENT, which names the known ones. */
grail_status task_check_name(const char *name) GRAIL_MUST_CHECK;

/**
 * Reads the file of a task in `directory`, of which at most the first `limit` documents are kept
 * (0: all); all lines are checked. Messages name the file, the line, the field, what was expected
 * and what was found. task_documents_fini frees *out.
 */
grail_status task_documents_read(const char *directory, const char *name, int64_t limit,
                                 task_documents *out) GRAIL_MUST_CHECK;

/** The same for bytes in memory; `path` is for messages, and its ending chooses the kind. */
grail_status task_documents_parse(const char *path, const char *name, const void *bytes,
                                  size_t size, task_documents *out) GRAIL_MUST_CHECK;

#endif
