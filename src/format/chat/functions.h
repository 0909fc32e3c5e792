/* Methods, filters and tests of chat templates. Those that are not here are
 * GRAIL_ERROR_UNSUPPORTED, with their names. */
#ifndef GRAIL_FORMAT_CHAT_FUNCTIONS_H
#define GRAIL_FORMAT_CHAT_FUNCTIONS_H

#include "format/chat/limits.h"
#include "format/chat/value.h"

typedef struct chat_arguments {
    chat_value values[CHAT_MOST_ARGUMENTS];
    chat_text names[CHAT_MOST_ARGUMENTS]; /* without bytes where the argument has none */
    int count;
} chat_arguments;

/* A method or a filter, which knows its own name. */
typedef grail_status (*chat_function)(chat_memory *m, chat_value of, chat_text name,
                                      const chat_arguments *arguments, chat_value *out);

/** The argument of this name, or the one without a name in this place; else undefined. */
chat_value chat_argument(const chat_arguments *arguments, int place, const char *name);

grail_status chat_method(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_filter(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_test(chat_memory *m, chat_value of, chat_text name,
                       const chat_arguments *arguments, bool *out) GRAIL_MUST_CHECK;

/** A value as JSON, as Python's json.dumps(ensure_ascii=False) writes it; indent 0: on one line. */
grail_status chat_to_json(chat_memory *m, chat_value of, int indent,
                          chat_value *out) GRAIL_MUST_CHECK;

#endif
