/* Chat templates: the part of Jinja that templates of language models use. Jinja is a language of
 * its own with Python's methods behind it, so whatever is not here is refused with its name and
 * line: of statements and signs when a template is read, of functions when a conversation reaches
 * them. Source: Jinja 3.1's documentation; transformers, utils/chat_template_utils.py, which sets
 * trim_blocks and lstrip_blocks, and defines tojson and raise_exception.
 *
 * The date is not known to a template (strftime_now): the same conversation gives the same text.
 */
#ifndef GRAIL_FORMAT_CHAT_TEMPLATE_H
#define GRAIL_FORMAT_CHAT_TEMPLATE_H

#include "base/buffer.h"
#include "base/json.h"

typedef struct chat_template chat_template;

/** Reads a template, of which a copy is kept. Messages begin with the line, and do not name the
 * file. *out is owned: chat_template_free. */
grail_status chat_template_parse(const char *text, size_t size,
                                 chat_template **out) GRAIL_MUST_CHECK;
void chat_template_free(chat_template *t); /* NULL is allowed */

/** What a template knows besides the messages. */
typedef struct chat_context {
    const json_t *tokens; /* an object: "bos_token" and other names with their texts; or NULL */
    const json_t *tools;  /* or NULL */
    bool add_generation_prompt;
} chat_context;

/** Appends the text of a conversation, an array of objects. What is not understood is
 * GRAIL_ERROR_UNSUPPORTED, and what the template refuses itself GRAIL_ERROR_FORMAT. */
grail_status chat_template_render(const chat_template *t, const json_t *messages,
                                  const chat_context *context, buffer *out) GRAIL_MUST_CHECK;

#endif
