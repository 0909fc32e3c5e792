/* What a text network predicts of every next token, without its output head in memory as a whole:
 * a head of a large vocabulary is by far the largest matrix of a network. */
#ifndef GRAIL_EVAL_TOKEN_LOSSES_H
#define GRAIL_EVAL_TOKEN_LOSSES_H

#include "backend/operations.h"
#include "eval/forward.h"

/**
 * out[count * (length - 1)]: the sums of -log p(token | tokens before it) over the vocabulary, for
 * tokens 1 .. length - 1 of the windows of a pass, window after window. A head of more than `panel`
 * bytes (0 = 64 MiB) of the backend's values is read from the checkpoint in panels of so many, each
 * once for all windows, and not kept; where its rows cannot be read on their own, or a store holds
 * it, it is used whole. A NaN or infinity among the logits is GRAIL_ERROR_NUMERIC.
 * Source: docs/numerics.md, Perplexity.
 */
grail_status token_losses(forward_pass *f, int64_t panel, entropy_sums *out) GRAIL_MUST_CHECK;

#endif
