/* Fields that the JSON of recipes and of results have in common. `where` is used in messages. */
#ifndef GRAIL_STUDY_FIELDS_H
#define GRAIL_STUDY_FIELDS_H

#include "base/json.h"

#include <grail/options.h>

enum { FIELD_MOST_BYTES = 1000 };

/** A required text of 1 to FIELD_MOST_BYTES bytes; *out is borrowed. */
grail_status field_text(const char *where, const json_t *object, const char *key,
                        const char **out) GRAIL_MUST_CHECK;

/** As field_text, but *out is owned. */
grail_status field_copy(const char *where, const json_t *object, const char *key,
                        char **out) GRAIL_MUST_CHECK;

/** As field_copy, for a path: a relative one is joined with the directory. */
grail_status field_path(const char *where, const json_t *object, const char *key,
                        const char *directory, char **out) GRAIL_MUST_CHECK;

/** The fields of a public option struct whose keys the object has; texts are borrowed. */
grail_status field_options(const char *where, const json_t *object, grail_option_at at,
                           void *owner) GRAIL_MUST_CHECK;
/** Refuses keys that are neither those of the fields nor among `more`, which ends with NULL. */
grail_status field_check_keys(const char *where, const json_t *object, grail_option_at at,
                              const char *const more[]) GRAIL_MUST_CHECK;

#endif
