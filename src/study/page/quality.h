/* How good the networks of an aggregate are, with intervals, and how much repairs gained. */
#ifndef GRAIL_STUDY_PAGE_QUALITY_H
#define GRAIL_STUDY_PAGE_QUALITY_H

#include "study/page/aggregate.h"

/** The seconds for an image or window: measured for themselves, or those of the evaluation. */
double quality_latency(const line_measures *m);

/** Fills in the quality of sections and groups and the gains of groups, when those are made and
 * the section's setting is chosen. */
grail_status quality_measure(aggregate *a) GRAIL_MUST_CHECK;

/** Whether a group is better than another by more than chance: where the outcomes of all their
 * cells were kept, by the interval of their differences pair by pair, else where their own
 * intervals do not overlap. */
bool quality_is_better(quality_kind kind, const cell_group *g, const cell_group *other);

#endif
