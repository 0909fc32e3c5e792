/* What was measured of every document of tasks, as JSON lines. */
#ifndef GRAIL_EVAL_TASK_LINES_H
#define GRAIL_EVAL_TASK_LINES_H

#include "base/buffer.h"
#include "format/text/task_documents.h"

/** Appends a line for every document; log_likelihoods[choice_count]. */
grail_status task_lines_append(const task_documents *d, const double *log_likelihoods,
                               buffer *out) GRAIL_MUST_CHECK;

#endif
