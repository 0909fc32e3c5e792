/* How a model writes conversations: its chat template, and the texts of its special tokens. */
#ifndef GRAIL_FORMAT_CHAT_FORMAT_H
#define GRAIL_FORMAT_CHAT_FORMAT_H

#include "base/json.h"
#include "format/gguf/gguf.h"

/** Where a model's template is: in the keys of a GGUF file, or in a directory. */
typedef struct chat_origin {
    const char *path;          /* of the file or directory, for messages */
    const gguf_metadata *gguf; /* NULL: `path` is a directory */
    bool in_memory;            /* a model without files has none; `path` is what it is called */
} chat_origin;

typedef struct chat_format chat_format;

/** Finds and reads the template; a model without one is GRAIL_ERROR_UNSUPPORTED. *out is owned:
 * chat_format_close. */
grail_status chat_format_open(const chat_origin *origin, chat_format **out) GRAIL_MUST_CHECK;
void chat_format_close(chat_format *f); /* NULL is allowed */

/** Appends the text of a conversation (conversation.h), with the model's special tokens in it;
 * tools, a list, may be NULL. With `answers` the text ends where an answer of the model begins. */
grail_status chat_format_render(const chat_format *f, const json_t *messages, const json_t *tools,
                                bool answers, buffer *out) GRAIL_MUST_CHECK;

/** The text of the token that ends a text, or NULL. */
const char *chat_format_end(const chat_format *f);

/**
 * The template of a directory: of chat_template.jinja, else of "chat_template" in
 * tokenizer_config.json or chat_template.json, of which a list has the template of the name
 * "default". *text and *place, what it was read from, are owned (memory_free), and NULL where there
 * is none.
 */
grail_status chat_find_template(const char *directory, char **text, char **place) GRAIL_MUST_CHECK;

#endif
