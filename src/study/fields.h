/* Fields that the JSON of recipes and of results have in common. `where` is used in messages. */
#ifndef GRAIL_STUDY_FIELDS_H
#define GRAIL_STUDY_FIELDS_H

#include "base/json.h"

enum { FIELD_MOST_BYTES = 1000 };

/** A text that must be there, not empty and of at most FIELD_MOST_BYTES; *out is borrowed. */
grail_status field_text(const char *where, const json_t *object, const char *key,
                        const char **out) GRAIL_MUST_CHECK;

/** One of two words, or the fallback; *out tells whether it is the second. */
grail_status field_word(const char *where, const json_t *object, const char *key, const char *first,
                        const char *second, bool fallback, bool *out) GRAIL_MUST_CHECK;

#endif
