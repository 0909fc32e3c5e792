/* What a text network predicts of every next token, without its output head in memory as a whole:
 * a head of a large vocabulary is by far the largest matrix of a network. */
#ifndef GRAIL_EVAL_TOKEN_LOSSES_H
#define GRAIL_EVAL_TOKEN_LOSSES_H

#include "backend/operations.h"
#include "eval/forward.h"

/** What the positions of windows are scored on: position first + i of window w on ids[w * stride +
 * i], for i below `count`. */
typedef struct token_targets {
    const int32_t *ids;
    int64_t stride, first, count;
} token_targets;

/** The next token of each position but the last: tokens 1 .. length - 1. */
token_targets targets_of_windows(const token_windows *windows);

/**
 * out[count of windows * targets.count]: the sums of -log p(target | tokens up to the position)
 * over the vocabulary, window after window of a pass. A head of more than `panel` bytes (0 = 64
 * MiB) of the backend's values is read from the checkpoint in panels of so many, each once for all
 * windows, and not kept; where its rows cannot be read on their own, or a store holds it, it is
 * used whole. A NaN or infinity among the logits is GRAIL_ERROR_NUMERIC. Source: docs/numerics.md,
 * Perplexity.
 */
grail_status token_losses(forward_pass *f, token_targets targets, int64_t panel,
                          entropy_sums *out) GRAIL_MUST_CHECK;

#endif
