/* Where a model's chat template is. It is copied, and tells that the model answers; nothing applies
 * it. */
#ifndef GRAIL_FORMAT_TEXT_CHAT_TEMPLATE_H
#define GRAIL_FORMAT_TEXT_CHAT_TEMPLATE_H

#include "base/status.h"
#include "format/text/windows.h"

/**
 * The template of a directory: of chat_template.jinja, else of "chat_template" in
 * tokenizer_config.json or chat_template.json, of which a list has the template of the name
 * "default". *text and *place, what it was read from, are owned (memory_free), and NULL where there
 * is none.
 */
grail_status chat_template_find(const char *directory, char **text, char **place) GRAIL_MUST_CHECK;

/* The marks between the turns of a conversation, by which windows of tokens are known as
 * conversations or as plain text. */

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
