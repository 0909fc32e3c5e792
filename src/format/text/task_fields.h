/* Fields of a line of a task. Messages say the field, what was expected and what was found; the
 * caller adds file and line. What a line lacks or has in another form is GRAIL_ERROR_FORMAT. */
#ifndef GRAIL_FORMAT_TEXT_TASK_FIELDS_H
#define GRAIL_FORMAT_TEXT_TASK_FIELDS_H

#include "base/json.h"

/** A string, borrowed from the object. */
grail_status task_text(const json_t *object, const char *key, const char **out) GRAIL_MUST_CHECK;

/** An integer, or a string that is one, or false and true for 0 and 1. */
grail_status task_number(const json_t *object, const char *key, int64_t least, int64_t most,
                         int64_t *out) GRAIL_MUST_CHECK;

/** An array of 2 to TASK_MOST_CHOICES strings, borrowed from the object. */
grail_status task_texts(const json_t *object, const char *key, const json_t **out) GRAIL_MUST_CHECK;

/** An object, borrowed. */
grail_status task_object(const json_t *object, const char *key,
                         const json_t **out) GRAIL_MUST_CHECK;

/** The place of the text of `key`, without spaces before it, among `labels`. */
grail_status task_label(const json_t *object, const char *key, const json_t *labels,
                        int64_t *out) GRAIL_MUST_CHECK;

#endif
