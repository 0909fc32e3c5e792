/* Which token follows, from the logits of all. */
#ifndef GRAIL_EVAL_NEXT_TOKEN_H
#define GRAIL_EVAL_NEXT_TOKEN_H

#include "base/random.h"

#include <grail/generate.h>

/**
 * The token that the options choose from logits[count], finite ones. The largest, of equal ones the
 * first; with a temperature T one is drawn with a probability in proportion to exp(logit / T), from
 * the top_k largest, and of these from the fewest whose share of their sum is at least top_p.
 */
grail_status next_token(const grail_generate_options *options, const float *logits, int64_t count,
                        random_state *random, int32_t *out) GRAIL_MUST_CHECK;

#endif
