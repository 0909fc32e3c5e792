/* Conversations of JSON lines, in the forms that people have them, as a template wants them. */
#ifndef GRAIL_FORMAT_CHAT_CONVERSATION_H
#define GRAIL_FORMAT_CHAT_CONVERSATION_H

#include "base/json.h"

/**
 * The messages of a conversation: [{"role": ..., "content": ...}], or [{"from": ..., "value":
 * ...}], whose speakers become roles. A content that is a list of texts is joined by line ends. A
 * missing field, a content that is no text, a speaker without a role, no message at all:
 * GRAIL_ERROR_FORMAT, with the number of the message. *out is owned: json_decref.
 */
grail_status chat_conversation_read(const json_t *messages, json_t **out) GRAIL_MUST_CHECK;

#endif
