/* Cells in words, for tooltips, captions and tables. */
#ifndef GRAIL_STUDY_PAGE_DESCRIBE_H
#define GRAIL_STUDY_PAGE_DESCRIBE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** "128 samples, closed loop" */
short_text setting_text(int64_t samples, bool open_loop);

/** "94.5" or "12.3". */
short_text value_text(quality_kind kind, double value);
/** "94.5 %" or "12.3", and " (92.9 to 95.8)" where the interval is known. */
short_text quality_text(quality_kind kind, const estimate *quality);
/** "loses 1.4 points (0.2 to 2.6)" or "has 3.4 % (2.6 to 4.2) more"; "gains", "less" below zero. */
short_text loss_text(quality_kind kind, const estimate *lost);
/** "top-1" or "perplexity". */
const char *describe_kind(quality_kind kind);

/** Everything about a group, one fact per line. */
void describe_group(markup *m, const aggregate *a, const cell_group *g);

/** "3 checkpoints" or "1 checkpoint". */
short_text count_text(int64_t count, const char *singular);

/** What the means of a section are over: "seeds", "checkpoints and seeds". */
const char *describe_members(const section *s);

#endif
