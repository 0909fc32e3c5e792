/* Names of files: their endings, and those of a directory. */
#ifndef GRAIL_BASE_NAME_LIST_H
#define GRAIL_BASE_NAME_LIST_H

#include "base/memory.h"

typedef struct name_list {
    char **names; /* owned */
    size_t count;
} name_list;

/** The names in a directory that do not begin with a dot and that are wanted (NULL: all), in byte
 * order. name_list_fini frees *out, which is empty on failure. */
grail_status name_list_read(const char *directory, bool (*is_wanted)(const char *name),
                            name_list *out) GRAIL_MUST_CHECK;
void name_list_fini(name_list *list); /* works on a zeroed one */

bool name_begins_with(const char *name, const char *beginning);
bool name_ends_with(const char *name, const char *ending);
/** GRAIL_ERROR_ARGUMENT for an output whose name ends as that of another kind of files does. `what`
 * is written there, "a GGUF file"; `ending` is its own one, NULL: of a directory. */
grail_status name_check_ending(const char *path, const char *what,
                               const char *ending) GRAIL_MUST_CHECK;

/** The same for the endings that tell the kind of a file, in small letters or capitals. */
bool name_is_of_kind(const char *name, const char *ending);

/** The first part of a name between dots that is a number, with a dot behind it at *end; NULL
 * without one. */
const char *name_find_number(const char *name, const char **end);

#endif
