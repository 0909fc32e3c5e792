/* Names shortened so that each can still be told from the others. */
#ifndef GRAIL_STUDY_PAGE_SHORT_NAMES_H
#define GRAIL_STUDY_PAGE_SHORT_NAMES_H

#include <grail/status.h>

#include <stddef.h>

typedef struct short_names {
    char **names; /* [count], owned */
    int count;
    size_t dropped; /* bytes at the beginning of every name, up to a dot, that all have in common */
} short_names;

/**
 * Leaves out the common beginning of names[count], then the middle of those that are longer than
 * `most` bytes, at a place where all that differed still differ. Where there is no such place, they
 * begin with their number instead. Names are UTF-8; `most` is at least 8. *out is released with
 * short_names_fini.
 */
grail_status short_names_make(const char *const *names, int count, size_t most,
                              short_names *out) GRAIL_MUST_CHECK;
void short_names_fini(short_names *s); /* works on a zeroed one */

#endif
