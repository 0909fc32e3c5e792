/* How the size of a cut is measured: what plots have on their x axis, as the reader chooses. */
#ifndef GRAIL_STUDY_PAGE_SIZES_H
#define GRAIL_STUDY_PAGE_SIZES_H

#include "study/page/aggregate.h"

/** The columns "ratio", "removed", "removed_macs" and "latency" of the table of groups: shares, and
 * seconds for an image or window. */
typedef enum size_kind { SIZE_RATIO, SIZE_REMOVED, SIZE_MACS, SIZE_TIME, SIZES } size_kind;

/** The name of its column. */
const char *size_name(size_kind kind);

/** For each measure of size, which groups of the section no other beats in both size and quality:
 * on_line has a row for each group of the aggregate and may be NULL. The same of its dense network
 * in dense[SIZES], which may be NULL. */
grail_status sizes_find_pareto(const aggregate *a, const section *s, bool (*on_line)[SIZES],
                               bool *dense) GRAIL_MUST_CHECK;

#endif
