/* Where a model's chat template is. It is copied, and tells that the model answers; nothing applies
 * it. */
#ifndef GRAIL_FORMAT_TEXT_CHAT_TEMPLATE_H
#define GRAIL_FORMAT_TEXT_CHAT_TEMPLATE_H

#include "base/status.h"

/**
 * The template of a directory: of chat_template.jinja, else of "chat_template" in
 * tokenizer_config.json or chat_template.json, of which a list has the template of the name
 * "default". *text and *place, what it was read from, are owned (memory_free), and NULL where there
 * is none.
 */
grail_status chat_template_find(const char *directory, char **text, char **place) GRAIL_MUST_CHECK;

#endif
