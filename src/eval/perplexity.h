/* Perplexity of a network, as a store has it, on text. */
#ifndef GRAIL_EVAL_PERPLEXITY_H
#define GRAIL_EVAL_PERPLEXITY_H

#include "exec/parameters.h"

#include <grail/eval.h>

/** GRAIL_ERROR_ARGUMENT about "windows" for a negative number. */
grail_status perplexity_check_windows(int64_t windows) GRAIL_MUST_CHECK;

/** Measures the network as `store` has it, which may be narrow, as grail_perplexity_measure does.
 * `recorded` has the record of its calibration beside it; `comm` may be NULL. */
grail_status perplexity_measure(const grail_model *recorded, parameter_store *store,
                                const grail_text_source *source, int64_t windows,
                                const grail_comm *comm, grail_eval_observer observer, void *user,
                                grail_perplexity *out) GRAIL_MUST_CHECK;

#endif
