/* The three standard descriptors. */
#ifndef GRAIL_CLI_DESCRIPTORS_H
#define GRAIL_CLI_DESCRIPTORS_H

#include <stdbool.h>

/**
 * Opens /dev/null on each of the descriptors 0 to 2 that is closed. Otherwise the first files that
 * the program opens would get these numbers, and printed text would end up in them. A replaced
 * standard input is empty, writes to a replaced standard output fail, and writes to a replaced
 * standard error are dropped. Must be called before anything is opened; false when /dev/null cannot
 * be opened.
 */
bool descriptors_open_missing(void);

#endif
