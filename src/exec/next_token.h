/* Which token follows, from the logits of all. */
#ifndef GRAIL_EXEC_NEXT_TOKEN_H
#define GRAIL_EXEC_NEXT_TOKEN_H

#include "base/random.h"

/** Index of the largest of values[count], the first of equal ones. */
int64_t index_of_largest(const float *values, int64_t count);

typedef struct token_choice {
    double temperature; /* 0: the most likely one */
    double top_p;       /* 0: all */
    int64_t top_k;      /* 0: all */
} token_choice;

/**
 * The token that is chosen from logits[count]: the largest, of equal ones the first; with a
 * temperature T one is drawn with a probability in proportion to exp(logit / T), from the
 * top_k largest, and of these from the fewest whose share of their sum is at least top_p.
 * A logit that is not finite is GRAIL_ERROR_NUMERIC. `random` may be NULL without a temperature.
 */
grail_status next_token(const token_choice *choice, const float *logits, int64_t count,
                        random_state *random, int32_t *out) GRAIL_MUST_CHECK;

/** Draws as next_token does with a temperature of 1, and turns logits[count] into the gradient of
 * -log p of what is drawn: p - 1 there, p elsewhere. */
void next_token_gradient(float *logits, int64_t count, random_state *random);

#endif
