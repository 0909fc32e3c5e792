/* A text file that grows by complete lines and that one program at a time writes. A line is on disk
 * when its append returns. A crash may leave a torn line, which has no line end; the next line
 * replaces it. */
#ifndef GRAIL_BASE_LINE_LOG_H
#define GRAIL_BASE_LINE_LOG_H

#include "base/buffer.h"

typedef struct line_log {
    char *path; /* for messages */
    int descriptor;
    uint64_t size; /* of the complete lines */
} line_log;

/* The result of an open that did not fail. */
typedef enum line_log_answer {
    LINE_LOG_OPEN,
    LINE_LOG_MISSING, /* the file is not there, and O_CREAT was not given */
    LINE_LOG_TAKEN /* another program holds the lock, or has just removed the file: do not touch it
                    */
} line_log_answer;

/**
 * Opens `name` below `directory` (AT_FDCWD: the working directory) for reading and writing, with
 * additional open(2) `flags`, and locks it. `path` is for messages. The caller calls line_log_fini
 * afterwards, whatever the answer and even after a failure.
 */
grail_status line_log_open(int directory, const char *name, const char *path, int flags,
                           line_log *out, line_log_answer *answer) GRAIL_MUST_CHECK;

/** Appends the complete file, of at most `maximum` bytes, to `text`. log->size becomes the size of
 * its complete lines, and the next line is written after them. */
grail_status line_log_read(line_log *log, size_t maximum, buffer *text) GRAIL_MUST_CHECK;

/** Appends one line; `text` ends with its only line end. The line is on disk when the function
 * returns. After a failure the log is unchanged or, if the disk refuses even that, ends in a torn
 * line. */
grail_status line_log_append(line_log *log, const void *text, size_t size) GRAIL_MUST_CHECK;

/** Closes the file and gives up the lock. */
void line_log_fini(line_log *log);

#endif
