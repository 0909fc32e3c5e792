/* A text file that grows by whole lines, written by one program at a time. A line is on disk when
 * its append returns. What a crash leaves of a line is torn: it has no line end, and the next line
 * takes its place. */
#ifndef GRAIL_BASE_LINE_LOG_H
#define GRAIL_BASE_LINE_LOG_H

#include "base/buffer.h"

typedef struct line_log {
    char *path; /* for messages */
    int descriptor;
    uint64_t size; /* of the whole lines */
} line_log;

/* How an open ended that did not fail. */
typedef enum line_log_answer {
    LINE_LOG_OPEN,
    LINE_LOG_MISSING, /* the file is not there, and O_CREAT was not given */
    LINE_LOG_TAKEN    /* another program has the lock, or just put the file away: keep off */
} line_log_answer;

/**
 * Opens `name` below `directory` (AT_FDCWD: the working directory) for reading and writing, with
 * open(2)'s `flags` beside, and locks it. `path` is for messages. To be followed by line_log_fini,
 * whatever the answer, and even where it fails.
 */
grail_status line_log_open(int directory, const char *name, const char *path, int flags,
                           line_log *out, line_log_answer *answer) GRAIL_MUST_CHECK;

/** The whole file, of at most `maximum` bytes, appended to `text`; log->size is then that of the
 * whole lines, and the next one is written behind them. */
grail_status line_log_read(line_log *log, size_t maximum, buffer *text) GRAIL_MUST_CHECK;

/** Appends text that ends with its only line end, on disk when it returns. After a failure the log is
 * as it was, or where the disk fails for that too, ends in a torn line. */
grail_status line_log_append(line_log *log, const void *text, size_t size) GRAIL_MUST_CHECK;

/** Closes the file and gives up the lock. */
void line_log_fini(line_log *log);

#endif
