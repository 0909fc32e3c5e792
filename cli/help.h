/* --help of a command. */
#ifndef GRAIL_CLI_HELP_H
#define GRAIL_CLI_HELP_H

#include "options.h"

/** Prints the usage, the options in groups and the examples of a command. */
void help_print(const command *c, const option *options);

#endif
