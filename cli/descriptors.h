/* The three descriptors that every program begins with. */
#ifndef GRAIL_CLI_DESCRIPTORS_H
#define GRAIL_CLI_DESCRIPTORS_H

#include <stdbool.h>

/**
 * Opens those of the descriptors 0 to 2 that are closed, on /dev/null: else the first files that
 * are opened get them, and what is printed ends up in these. Standard input is empty then, what is
 * written to standard output fails, and what is written to standard error is dropped. Called before
 * anything is opened; false where /dev/null cannot be opened.
 */
bool descriptors_open_missing(void);

#endif
