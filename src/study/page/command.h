/* The command that makes a network of the sweep again. */
#ifndef GRAIL_STUDY_PAGE_COMMAND_H
#define GRAIL_STUDY_PAGE_COMMAND_H

#include "study/page/aggregate.h"

#include "base/buffer.h"

/**
 * Appends the `grail compress` line of a group's first cell, for a POSIX shell: its settings, and
 * what the recipe says for all cells. Paths are as the sweep used them, from the directory it was
 * started in; where the results do not say one, MODEL or CALIBRATION stands for it.
 */
grail_status command_write(const aggregate *a, const cell_group *g, buffer *out) GRAIL_MUST_CHECK;

#endif
