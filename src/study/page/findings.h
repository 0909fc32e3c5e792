/* What the sweep found, for the sentences of the page: the decision, how repairs compare, and what
 * was run. Groups are named by their rows in the table of groups. Each function fills an array, or
 * an object. */
#ifndef GRAIL_STUDY_PAGE_FINDINGS_H
#define GRAIL_STUDY_PAGE_FINDINGS_H

#include "base/json.h"
#include "study/page/aggregate.h"

/** For each section with cells: its name and setting, its dense network, for each limit of the
 * decision the group that it names and the command that makes it, and where its best repair gains
 * most. */
grail_status findings_networks(const aggregate *a, json_t *list) GRAIL_MUST_CHECK;

/** How often a repair beats another wherever both were measured, {"measure", "better", "worse",
 * "above", "of", "apart" (by more than chance), "median" (of what it gains: a difference of top-1
 * accuracy, or the share of a perplexity that is gone)}. */
grail_status findings_comparisons(const aggregate *a, json_t *list) GRAIL_MUST_CHECK;

/** The machine and the counts of the file. */
grail_status findings_facts(const aggregate *a, json_t *out) GRAIL_MUST_CHECK;

#endif
