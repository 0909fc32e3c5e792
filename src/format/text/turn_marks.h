/* The marks between the turns of a conversation, by which windows of tokens are known as
 * conversations or as plain text. */
#ifndef GRAIL_FORMAT_TEXT_TURN_MARKS_H
#define GRAIL_FORMAT_TEXT_TURN_MARKS_H

#include "format/text/windows.h"

typedef enum turns_found {
    TURNS_UNKNOWN, /* the tokenizer has no marks, so a conversation looks like any text */
    TURNS_MISSING,
    TURNS_THERE
} turns_found;

/**
 * Looks for two different added tokens, such as <|im_start|> and <|im_end|>, that the tokenizer
 * does not put around every text (one where it has no others): plain text has at most one, which
 * ends its documents.
 */
grail_status turns_find(const tokenizer *t, const token_windows *w,
                        turns_found *out) GRAIL_MUST_CHECK;

#endif
