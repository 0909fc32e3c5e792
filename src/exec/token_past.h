/* What the tokens of a batch go on with: those before them, of which attentions keep keys and
 * values. */
#ifndef GRAIL_EXEC_TOKEN_PAST_H
#define GRAIL_EXEC_TOKEN_PAST_H

#include "backend/matrix.h"

/** What one attention keeps, [sequences * room, columns]; made by its first batch. */
typedef struct kept_keys {
    matrix k, v; /* owned */
} kept_keys;

typedef struct token_past {
    int64_t earlier; /* tokens of each sequence that were run */
    int64_t room;    /* for these and all that follow */
    kept_keys *keys; /* [node_count], owned by whoever runs tokens */
} token_past;

#endif
