/* A directory for files that another program or library reads by name. */
#ifndef GRAIL_BASE_TEMPORARY_DIRECTORY_H
#define GRAIL_BASE_TEMPORARY_DIRECTORY_H

#include "base/status.h"

/** Makes a new directory "NAME-..." below the one whose absolute path TMPDIR holds, or else below
 * /tmp. *out, its absolute path, is owned. */
grail_status temporary_directory(const char *name, char **out) GRAIL_MUST_CHECK;

/** Removes the directory with all that is below it; NULL is allowed. What cannot be removed
 * stays. Links are removed, not followed. */
void temporary_directory_remove(const char *path);

#endif
