/* The marks that a chat template writes between the turns of a conversation, by which windows of
 * tokens are known as conversations or as plain text. The template is only looked through, not
 * applied. */
#ifndef GRAIL_FORMAT_TEXT_TURN_MARKS_H
#define GRAIL_FORMAT_TEXT_TURN_MARKS_H

#include "format/text/windows.h"

typedef enum turns_found {
    TURNS_UNKNOWN, /* the template writes no marks, so a conversation looks like any text */
    TURNS_MISSING,
    TURNS_THERE
} turns_found;

/**
 * Looks for two different marks of the template (one where it has no others): tags, such as
 * <|im_start|> and [INST], that are tokens of their own and are not put around every text; where
 * there are fewer than two, all its tags, and speakers such as "User:", in the text of the windows.
 */
grail_status turns_find(const char *template, const tokenizer *t, const token_windows *w,
                        turns_found *out) GRAIL_MUST_CHECK;

#endif
