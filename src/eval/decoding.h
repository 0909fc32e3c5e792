/* Runs a decoder token by token. What attention reads of earlier tokens is kept, so that a further
 * token runs through every map alone. */
#ifndef GRAIL_EVAL_DECODING_H
#define GRAIL_EVAL_DECODING_H

#include "exec/execution.h"

typedef struct decoding {
    const grail_model *model;
    parameter_store *store; /* borrowed */
    matrix_pool *pool;
    execution *tokens; /* of the tokens that are appended */
    execution *all;    /* of all positions, for operators that look at them */
    matrix *kept;      /* [node_count * NODE_MAX_INPUTS] what attentions read of the positions so
                          far, [most, columns] in the store's backend; owned */
    int32_t *ids;      /* [count] */
    int64_t count, most;
} decoding;

/** For at most `most` tokens. decoding_end frees, even after a failure. */
grail_status decoding_begin(decoding *d, parameter_store *store, int64_t most) GRAIL_MUST_CHECK;
void decoding_end(decoding *d); /* works on a zeroed one */

/** Appends ids[count], of the vocabulary, count >= 1. *logits [1, vocabulary] are those of the
 * last one, borrowed until the next call. */
grail_status decoding_append(decoding *d, const int32_t *ids, int64_t count,
                             matrix *logits) GRAIL_MUST_CHECK;

#endif
