/* How likely a network finds the continuations of choices. */
#ifndef GRAIL_EVAL_CHOICE_SCORES_H
#define GRAIL_EVAL_CHOICE_SCORES_H

#include "comm/comm.h"
#include "eval/choice_rows.h"
#include "exec/parameters.h"

/** Called with how many rows are scored, by all ranks as far as this one knows; what is not
 * GRAIL_OK ends the work. */
typedef grail_status (*choice_observer)(void *user, int64_t done);

/**
 * log_likelihoods[count]: the sum of log p(token | tokens before it) over the scored tokens of each
 * row, natural logarithm. Rows of about one length run together, padded behind; how long a row is
 * padded depends on itself alone. Ranks, or NULL, take batches of rows in turns, and all get all.
 */
grail_status choice_scores(parameter_store *store, const choice_rows *rows, const grail_comm *comm,
                           choice_observer observer, void *user,
                           double *log_likelihoods) GRAIL_MUST_CHECK;

#endif
