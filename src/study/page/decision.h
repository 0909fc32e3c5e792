/* What the reader of a sweep wants to decide: how far a network can be cut for what it may lose. */
#ifndef GRAIL_STUDY_PAGE_DECISION_H
#define GRAIL_STUDY_PAGE_DECISION_H

#include "study/page/aggregate.h"

enum { DECISION_LIMITS = 3 };

/** What a network may lose, ascending: 1, 2 and 5 points of accuracy, or 1, 5 and 10 % of
 * perplexity. */
const double *decision_limits(quality_kind kind); /* [DECISION_LIMITS] */

/** The share that a group cuts: of the parameters, or of the units where the parameters were not
 * counted. */
double decision_cut(const cell_group *g);

/** The largest cut of the section that loses at most `limit`. Among equally large ones (to 0.1 %)
 * it is that of the default selector and repair, if its interval does not lie beyond that of the
 * best; else the one that loses least, and of equals the simplest repair. NULL where there is none.
 */
const cell_group *decision_largest(const aggregate *a, const section *s, double limit);

/** Whether two cuts are equally large and g is not better than `best` by more than the intervals.
 */
bool decision_is_alike(const section *s, const cell_group *g, const cell_group *best);

/** The cut that loses least, of any size; NULL where no loss is known. */
const cell_group *decision_least_loss(const section *s);

#endif
