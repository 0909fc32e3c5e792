/* Windows of token ids that a program hands over. */
#ifndef GRAIL_FORMAT_TEXT_TOKEN_ARRAY_H
#define GRAIL_FORMAT_TEXT_TOKEN_ARRAY_H

#include "format/text/windows.h"

#include <grail/text.h>

/* What records call the place of such windows. */
#define TOKENS_PLACE "memory"

/** Copies the windows, of which those with a length of their own are documents. What is no array, a
 * length outside of 1 to that of the rows, and an id outside `vocabulary`, are errors that name the
 * window. token_windows_fini frees *out. */
grail_status windows_of_tokens(const grail_tokens *tokens, int64_t vocabulary,
                               token_windows *out) GRAIL_MUST_CHECK;

/** Whether the shape is that of an array. */
grail_status tokens_check(const grail_tokens *tokens) GRAIL_MUST_CHECK;

/** SHA-256 of the ids and lengths. */
void tokens_hash(const grail_tokens *tokens, char hash[65]);

#endif
