/* Conversations as text: what a model's chat template makes of them. The template is not run: the
 * kinds that are known are told by their marks and written here, and a caller that runs templates
 * goes first. */
#ifndef GRAIL_FORMAT_TEXT_CHAT_H
#define GRAIL_FORMAT_TEXT_CHAT_H

#include "base/buffer.h"
#include "base/json.h"
#include "format/text/tokenizer.h"

#include <grail/text.h>

typedef struct chat_writer chat_writer;

/** For a template, `text`, that stands in `place`; `source`, which may be NULL, has who runs
 * templates. The tokenizer is borrowed. *out is owned: chat_close. */
grail_status chat_open(const char *text, const char *place, const tokenizer *t,
                       const grail_text_source *source, chat_writer **out) GRAIL_MUST_CHECK;
void chat_close(chat_writer *c); /* NULL is allowed */

/**
 * A conversation of a data set, as messages with "role" and "content": those have them already, or
 * "from" and "value" with the names human and gpt. What is no list of messages, or an empty one, is
 * GRAIL_ERROR_FORMAT. *out is owned: json_decref.
 */
grail_status chat_read(const json_t *conversation, json_t **out) GRAIL_MUST_CHECK;

/**
 * Appends the text of messages; with `answers` and the beginning of the network's answer, without
 * what ends a conversation. Its special tokens are tokens, and none go around it.
 * GRAIL_ERROR_UNSUPPORTED, with the remedy, where only the template itself says what it makes of
 * them: its kind is not known, or it writes more than turns.
 */
grail_status chat_write(const chat_writer *c, const json_t *messages, bool answers,
                        buffer *out) GRAIL_MUST_CHECK;

/** What stands around a question and its answer: begin question between answer after. */
typedef struct chat_turns {
    token_list begin, between, after; /* `after` may be empty */
} chat_turns;

/** *known is false, and the lists are empty, where the template does not tell: it is of no known
 * kind, or changes what is said. chat_turns_fini frees *out, even after a failure. */
grail_status chat_turns_find(const chat_writer *c, chat_turns *out, bool *known) GRAIL_MUST_CHECK;
void chat_turns_fini(chat_turns *t); /* works on a zeroed one */

#endif
