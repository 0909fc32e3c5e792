/* Names that may be missing, and lists of known ones in messages. */
#ifndef GRAIL_BASE_NAMES_H
#define GRAIL_BASE_NAMES_H

#include <grail/names.h>

#include <stdbool.h>

/** Whether two names are the same; NULL is the same as NULL alone. */
bool names_equal(const char *a, const char *b);

/** Adds the names of a list to the error text, " a, b, c", and where `name` is near to one of them
 * "; did you mean 'b'?". `name` may be NULL. */
void error_append_names(const char *name, grail_name_at name_at, const void *list);

/** The same for an array that ends with NULL. */
void error_append_known(const char *name, const char *const known[]);

#endif
