#ifndef GRAIL_NAMES_H
#define GRAIL_NAMES_H

#include <grail/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The i-th name of a list, NULL beyond the last. */
typedef const char *(*grail_name_at)(const void *list, int i);

/**
 * The name of a list that somebody who wrote `name` probably meant: the one that the fewest edits
 * lead to (a character inserted, deleted or replaced, or two neighbours swapped), the first of
 * several. NULL where even that one takes more than (n + 1) / 3 edits of the n characters of
 * `name`, or where `name` is longer than 64 bytes. Borrowed from the list.
 */
GRAIL_API const char *grail_nearest_name(const char *name, grail_name_at name_at, const void *list);

#ifdef __cplusplus
}
#endif
#endif
