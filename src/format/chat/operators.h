/* Operators on values of chat templates, and their parts. What Python has and templates do not
 * need is GRAIL_ERROR_UNSUPPORTED, with its name. */
#ifndef GRAIL_FORMAT_CHAT_OPERATORS_H
#define GRAIL_FORMAT_CHAT_OPERATORS_H

#include "format/chat/value.h"

/** Two texts as one. */
grail_status chat_join(chat_memory *m, chat_text a, chat_text b, chat_value *out) GRAIL_MUST_CHECK;
/** Where `part` begins in `text`, from `from` on; text.size + 1: nowhere. */
grail_status chat_search(chat_memory *m, chat_text text, size_t from, chat_text part,
                         size_t *out) GRAIL_MUST_CHECK;

/** Takes two operands: == != < > <= >= in + - ~ * % //. */
grail_status chat_binary(chat_memory *m, chat_text sign, chat_value a, chat_value b,
                         chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_minus(chat_value of, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_attribute(chat_memory *m, chat_value of, chat_text name,
                            chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_index(chat_memory *m, chat_value of, chat_value at,
                        chat_value *out) GRAIL_MUST_CHECK;
/** bounds[3]: begin, end and step, undefined where they are left out. */
grail_status chat_slice(chat_memory *m, chat_value of, const chat_value bounds[3],
                        chat_value *out) GRAIL_MUST_CHECK;

#endif
