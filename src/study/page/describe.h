/* Cells in words, for tooltips, captions and tables. */
#ifndef GRAIL_STUDY_PAGE_DESCRIBE_H
#define GRAIL_STUDY_PAGE_DESCRIBE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** "128 samples, closed loop" */
void describe_setting(markup *m, int64_t samples, bool open_loop);

/** Everything about a group, one fact per line. */
void describe_group(markup *m, const aggregate *a, const cell_group *g);

/** "3 checkpoints" or "1 checkpoint". */
void describe_count(markup *m, int64_t count, const char *singular);

/** What the bands of a section's plots span: "seeds", "checkpoints and seeds". */
const char *describe_members(const section *s);

#endif
