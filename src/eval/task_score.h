/* What the likelihoods of choices say of a network: how often the right one is the most likely. */
#ifndef GRAIL_EVAL_TASK_SCORE_H
#define GRAIL_EVAL_TASK_SCORE_H

#include "eval/choice_rows.h"

#include <grail/eval.h>

/** log_likelihoods[choice_count] of the choices of `d`, whose rows are `rows`. */
void task_score_fill(const task_documents *d, const choice_rows *rows,
                     const double *log_likelihoods, grail_task_score *out);

#endif
