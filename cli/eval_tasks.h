/* The part of grail eval that measures zero-shot tasks. */
#ifndef GRAIL_CLI_EVAL_TASKS_H
#define GRAIL_CLI_EVAL_TASKS_H

#include <grail/eval.h>

#include <stdbool.h>

/** Measures and prints; returns an exit code. `path` is that of the model, for the output. */
int evaluate_tasks(const char *path, const grail_model *model, const grail_task_options *options,
                   const grail_compute *compute, bool quiet, bool as_json);

#endif
