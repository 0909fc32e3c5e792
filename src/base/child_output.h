/* What another program prints. */
#ifndef GRAIL_BASE_CHILD_OUTPUT_H
#define GRAIL_BASE_CHILD_OUTPUT_H

#include "base/buffer.h"

/** The path of a program in an absolute directory of PATH; NULL (*out) where none has it. Other
 * entries, such as the empty one, mean the working directory, whose files nobody meant to run.
 * *out is owned. */
grail_status child_find(const char *name, char **out) GRAIL_MUST_CHECK;

/** Runs program[0] (a path) with the arguments that follow up to NULL, in the directory "/", with
 * the bytes of `input` (NULL: none) to read, and appends what it prints. It is killed after
 * `seconds`, and when it has printed as much as `out` may hold: both are GRAIL_ERROR_UNSUPPORTED.
 * What it exits with does not count.
 */
grail_status child_output(const char *const program[], const buffer *input, double seconds,
                          buffer *out) GRAIL_MUST_CHECK;

#endif
