/* The tokens that a network goes on from. */
#ifndef GRAIL_EVAL_PROMPT_H
#define GRAIL_EVAL_PROMPT_H

#include "arch/model.h"
#include "format/text/tokenizer.h"

#include <grail/generate.h>

/**
 * Appends the ids of the prompt, as a text of its own or, with options->chat, as what a user says
 * in a conversation that the model's template writes up to the answer. *end is the token that ends
 * an answer, -1 without a conversation or where there is none.
 */
grail_status prompt_encode(const grail_model *model, const grail_generate_options *options,
                           const tokenizer *t, token_list *out, int32_t *end) GRAIL_MUST_CHECK;

#endif
