/* What a network that answers says to questions before and after it was narrowed. */
#ifndef GRAIL_CLI_ANSWERS_H
#define GRAIL_CLI_ANSWERS_H

#include <grail/eval.h>

#include <jansson.h>

/** Those of both networks; nothing where no question was asked. */
void answers_print(const grail_answers *dense, const grail_answers *result);
/** Appends a list in Markdown to text[size]. */
void answers_append(const grail_answers *dense, const grail_answers *result, char *text,
                    size_t size);
/** A list, or JSON null where no question was asked. */
json_t *answers_json(const grail_answers *dense, const grail_answers *result);

#endif
