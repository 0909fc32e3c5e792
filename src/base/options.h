/* Fields of structs by their descriptions (grail/options.h). A list of descriptions ends with one
 * whose field is NULL. */
#ifndef GRAIL_BASE_OPTIONS_H
#define GRAIL_BASE_OPTIONS_H

#include "base/json.h"

#include <grail/options.h>

/** Where a field lies, for the initializer of its description. */
#define OPTION_FIELD(owner, member)                                                                \
    .field = #member, .offset = offsetof(owner, member), .size = sizeof(((owner *)0)->member)

/** The description of the room of `type`, which `member` is in `owner`. */
#define OPTION_ROOM(owner, member, type_name)                                                      \
    {                                                                                              \
        OPTION_FIELD(owner, member), .type = GRAIL_OPTION_ROOM, .what = #type_name                 \
    }

/** A list that ends with NULL, for the initializer of a description. */
#define OPTION_WORDS(...)                                                                          \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/** i-th description of a list, NULL beyond the last. */
const grail_option *option_at(const grail_option *list, int i);

/** Sets the usual values in a zeroed struct. */
void options_init(const grail_option *list, void *owner);

/** Whether every field has a value of its range. What has none is GRAIL_ERROR_ARGUMENT about the
 * field. Selectors and backends are looked up where they are used. */
grail_status options_check(const grail_option *list, const void *owner) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT outside [0, 1). */
grail_status option_check_sparsity(double sparsity) GRAIL_MUST_CHECK;

/** The place of a word in a list that ends with NULL. An unknown one is GRAIL_ERROR_ARGUMENT;
 * `what` says in the message what it is not. */
grail_status option_find_word(const char *what, const char *word, const char *const *words,
                              int *out) GRAIL_MUST_CHECK;

/** Copies into the fields of `to` what `from` says in fields of the same key: a word that is not
 * NULL, a number unless it is the usual one, and flags and choices always. A word becomes a choice,
 * or a choice a word, where the other list has it so. */
grail_status options_transfer(const grail_option *from, const void *from_owner,
                              const grail_option *to, void *to_owner) GRAIL_MUST_CHECK;

/** object[key] = the field, of every description of the list. */
grail_status options_to_json(const grail_option *list, const void *owner,
                             json_t *object) GRAIL_MUST_CHECK;
/** object[name of the field] = the field, of those that decide the bytes of a result. */
grail_status options_record(const grail_option *list, const void *owner,
                            json_t *object) GRAIL_MUST_CHECK;
/** The fields whose keys the object has; null is as none. Texts are borrowed from the object.
 * `source` names the document in messages. */
grail_status options_from_json(const char *source, const json_t *object, const grail_option *list,
                               void *owner) GRAIL_MUST_CHECK;
/** As json_check_keys, for the keys of a list and some more, up to NULL. */
grail_status options_check_keys(const char *where, const json_t *object, const grail_option *list,
                                const char *const more[]) GRAIL_MUST_CHECK;

#endif
