/* Runs a decoder token by token. What attention reads of earlier tokens is kept, so that a further
 * token costs one pass of it through the network, and its attention to the others. */
#ifndef GRAIL_EXEC_DECODING_H
#define GRAIL_EXEC_DECODING_H

#include "exec/execution.h"

typedef struct decoding {
    parameter_store *store; /* borrowed */
    matrix_pool *pool;
    execution *tokens; /* of the tokens that are appended */
    execution *last;   /* of the last one of each sequence, behind the blocks */
    token_past past;
    int32_t *ids;      /* [sequences, most] so far */
    int32_t *appended; /* [sequences, count] those that run */
    int64_t sequences, count, most;
} decoding;

/** For so many sequences of at most `most` tokens. decoding_end frees, even after a failure. */
grail_status decoding_begin(decoding *d, parameter_store *store, int64_t sequences,
                            int64_t most) GRAIL_MUST_CHECK;
void decoding_end(decoding *d); /* works on a zeroed one */

/** Appends `count` tokens of the vocabulary, 1 or more, to each sequence: ids[sequences, count].
 * *logits [sequences, vocabulary] are those of the last ones, borrowed until the next call. */
grail_status decoding_append(decoding *d, const int32_t *ids, int64_t count,
                             matrix *logits) GRAIL_MUST_CHECK;

/** For measuring what later tokens take: as if the tokens so far, at least one, had been appended
 * again and again until there are `count`, wherever they stood. */
grail_status decoding_pretend(decoding *d, int64_t count) GRAIL_MUST_CHECK;

#endif
